"""GBNF written as a Lark grammar for llguidance.

Lark's lexemes are greedy: one that may go on does. GBNF knows no lexemes, so as much as possible
becomes one: every rule that is no part of a recursion, and neighbours of that kind. A grammar
without recursion is thus a single lexeme, and exact.
"""

import json
from collections.abc import Callable, Iterator

from engine.guided.backend import ConstraintError
from engine.guided.gbnf import (
    ROOT,
    CharacterSet,
    Choice,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Sequence,
    parse_gbnf,
)


def gbnf_to_lark(source: str) -> str:
    """Translate a grammar; raises ConstraintError."""
    try:
        rules = parse_gbnf(source)
        if endless := rules.keys() - _closure(rules, _is_finite):
            raise ConstraintError(f"only an endless text could satisfy the rule `{min(endless)}`")
        return _Writer(rules).write()
    except RecursionError:
        raise ConstraintError("the grammar is nested too deeply") from None


class _Writer:
    """Writes upper-case names for lexemes and lower-case ones for rules, as Lark tells them."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.regular = _closure(rules, _is_regular)
        self.names = {
            name: f"{'RULE' if name in self.regular else 'rule'}_{i}"
            for i, name in enumerate(rules)
        }
        self.lines: list[str] = []

    def write(self) -> str:
        self.lines.append(f"start: {self.names[ROOT]}")
        for name, node in self.rules.items():
            body = self._lexeme(node) if name in self.regular else self._rule(node)
            self.lines.append(f"{self.names[name]}: {body}")
        return "\n".join(self.lines) + "\n"

    def _lexeme(self, node: Node) -> str:
        match node:
            case Literal(text):
                return json.dumps(text)
            case CharacterSet(ranges, negated):
                return _regex(ranges, negated=negated)
            case Reference(name):
                return self.names[name]
            case Repeat(item, times):
                return f"({self._lexeme(item)}){times}"
            case Sequence(items):
                return f"({' '.join(map(self._lexeme, items))})" if items else '""'
            case Choice(items):
                return f"({' | '.join(map(self._lexeme, items))})"

    def _rule(self, node: Node) -> str:
        if _is_regular(node, self.regular):
            return self._named_lexeme(node)
        match node:
            case Repeat(item, times):
                return f"({self._rule(item)}){times}"
            case Sequence(items):
                return f"({' '.join(map(self._rule, self._joined(items)))})"
            case Choice(items):
                return f"({' | '.join(map(self._rule, items))})"
            case Reference(name):
                return self.names[name]
        raise AssertionError(node)

    def _named_lexeme(self, node: Node) -> str:
        if isinstance(node, Reference):
            return self.names[node.name]
        name = f"PART_{len(self.lines)}"
        self.lines.append(f"{name}: {self._lexeme(node)}")
        return name

    def _joined(self, items: list[Node]) -> Iterator[Node]:
        """The items, with neighbours that are regular made one."""
        run: list[Node] = []
        for item in items:
            if _is_regular(item, self.regular):
                run.append(item)
                continue
            if run:
                yield _sequence(run)
            run = []
            yield item
        if run:
            yield _sequence(run)


def _sequence(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Sequence(items)


def _regex(ranges: list[tuple[str, str]], *, negated: bool) -> str:
    if not ranges:
        return "/(?s:.)/"
    # By code point, so that no character is taken for syntax.
    inside = "".join(rf"\u{{{ord(first):x}}}-\u{{{ord(last):x}}}" for first, last in ranges)
    return f"/[{'^' if negated else ''}{inside}]/"


def _references(node: Node) -> Iterator[str]:
    match node:
        case Reference(name):
            yield name
        case Repeat(item, _):
            yield from _references(item)
        case Sequence(items) | Choice(items):
            for item in items:
                yield from _references(item)


def _users(rules: Rules) -> dict[str, set[str]]:
    """The rules that refer to a rule."""
    users: dict[str, set[str]] = {name: set() for name in rules}
    for name, node in rules.items():
        for reference in _references(node):
            users[reference].add(name)
    return users


def _closure(rules: Rules, holds: Callable[[Node, set[str]], bool]) -> set[str]:
    """The rules for which something holds that depends on the rules for which it holds."""
    users = _users(rules)
    found: set[str] = set()
    waiting = list(rules)
    while waiting:
        name = waiting.pop()
        if name not in found and holds(rules[name], found):
            found.add(name)
            waiting += users[name]
    return found


def _is_regular(node: Node, regular: set[str]) -> bool:
    """Whether nothing in it leads back to a recursion."""
    return all(reference in regular for reference in _references(node))


def _is_finite(node: Node, finite: set[str]) -> bool:
    """Whether some text can satisfy it."""
    match node:
        case Reference(name):
            return name in finite
        case Repeat(item, times):
            return times[:2] in ("*", "?", "{0") or _is_finite(item, finite)
        case Sequence(items):
            return all(_is_finite(item, finite) for item in items)
        case Choice(items):
            return any(_is_finite(item, finite) for item in items)
    return True
