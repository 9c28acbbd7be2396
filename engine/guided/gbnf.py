"""GBNF, llama.cpp's dialect of BNF: read into rules."""

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

from engine.guided.backend import ConstraintError

ROOT = "root"

_CHARACTER = r"(?:\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\[^xuU]|[^\\])"
_RANGE = re.compile(rf"({_CHARACTER})(?:-({_CHARACTER}))?", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\#[^\n]*)+)
    | (?P<define>::=)
    | (?P<name>[A-Za-z][\w-]*)
    | (?P<literal>"(?:\\.|[^"\\])*")
    | (?P<set>\[\^?(?:\\.|[^\]\\])+\])
    | (?P<repeat>[*+?]|\{\s*\d+\s*(?:,\s*\d*\s*)?\})
    | (?P<mark>[().|])
    | (?P<end>\Z)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {c: c for c in string.punctuation} | {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Literal:
    """A text as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """One character: in one of the ranges (first and last), or in none of them."""

    ranges: list[tuple[str, str]]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """What another rule describes."""

    name: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """An item as often as `*`, `+`, `?`, `{m}`, `{m,}` or `{m,n}` says."""

    item: "Node"
    times: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items one after the other; none is the empty text."""

    items: list["Node"]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several items."""

    items: list["Node"]


Node = Literal | CharacterSet | Reference | Repeat | Sequence | Choice
Rules = dict[str, Node]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


def is_gbnf(source: str) -> bool:
    """Whether a grammar is GBNF and not Lark: its rules are defined by `::=`."""
    return re.search(r"^\s*[\w-]+\s*::=", source, re.MULTILINE) is not None


def parse_gbnf(source: str) -> Rules:
    """Read a grammar's rules, `root` among them; raises ConstraintError with line and column."""
    return _Parser(source).parse()


class _Parser:
    """Recursive descent; a rule ends where the next name is followed by `::=`."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = list(self._tokens())
        self.position = 0
        self.references: list[_Token] = []

    def parse(self) -> Rules:
        rules: Rules = {}
        while self._next.kind != "end":
            name = self._take("name")
            self._take("define")
            if name.text in rules:
                raise self._error(f"the rule `{name.text}` is defined twice", name)
            rules[name.text] = self._choice()
        for reference in self.references:
            if reference.text not in rules:
                raise self._error(f"there is no rule `{reference.text}`", reference)
        if ROOT not in rules:
            raise ConstraintError(f"there is no rule `{ROOT}`")
        return rules

    def _tokens(self) -> Iterator[_Token]:
        position = 0
        while True:
            match = _TOKEN.match(self.source, position)
            if not match:
                found = self.source[position]
                raise self._error(f"unexpected {found!r}", _Token("", found, position))
            kind = match.lastgroup or ""
            if kind != "blank":
                yield _Token(kind, match[0], position)
            if kind == "end":
                return
            position = match.end()

    @property
    def _next(self) -> _Token:
        return self.tokens[self.position]

    def _take(self, kind: str, text: str | None = None) -> _Token:
        token = self._next
        if token.kind != kind or token.text != (text or token.text):
            found = repr(token.text) if token.text else "the end"
            raise self._error(f"expected {text or kind}, found {found}", token)
        self.position += 1
        return token

    def _skip(self, mark: str) -> bool:
        found = self._next.kind == "mark" and self._next.text == mark
        self.position += found
        return found

    def _choice(self) -> Node:
        items = [self._sequence()]
        while self._skip("|"):
            items.append(self._sequence())
        return items[0] if len(items) == 1 else Choice(items)

    def _sequence(self) -> Node:
        items = []
        while not self._at_end_of_sequence():
            items.append(self._repeat())
        return items[0] if len(items) == 1 else Sequence(items)

    def _at_end_of_sequence(self) -> bool:
        token = self._next
        if token.kind == "name":
            return self.tokens[self.position + 1].kind == "define"
        return token.kind == "end" or token.text in ("|", ")")

    def _repeat(self) -> Node:
        item = self._item()
        if self._next.kind != "repeat":
            return item
        times = re.sub(r"\s", "", self._take("repeat").text)
        if self._next.kind == "repeat":
            raise self._error("multiple repeat", self._next)
        return Repeat(item, times)

    def _item(self) -> Node:
        if self._skip("("):
            group = self._choice()
            self._take("mark", ")")
            return group
        if self._skip("."):
            return CharacterSet([], negated=True)
        if self._next.kind == "literal":
            token = self._take("literal")
            return Literal(self._unescape(token.text[1:-1], token))
        if self._next.kind == "set":
            return self._character_set(self._take("set"))
        self.references.append(self._take("name"))
        return Reference(self.references[-1].text)

    def _character_set(self, token: _Token) -> CharacterSet:
        negated = token.text.startswith("[^")
        ranges = []
        for first, last in _RANGE.findall(token.text[1 + negated : -1]):
            ranges.append((self._unescape(first, token), self._unescape(last or first, token)))
            if ranges[-1][0] > ranges[-1][1]:
                raise self._error(f"the range {first}-{last} is in reverse order", token)
        return CharacterSet(ranges, negated)

    def _unescape(self, text: str, token: _Token) -> str:
        def character(match: re.Match[str]) -> str:
            escape = match[0]
            if escape[0] != "\\":
                return escape
            return chr(int(escape[2:], 16)) if escape[1] in "xuU" else _ESCAPES[escape[1]]  # noqa: FURB166

        try:
            plain = re.sub(rf"{_CHARACTER}|\\", character, text, flags=re.DOTALL)
            plain.encode()
        except (LookupError, ValueError, OverflowError):
            raise self._error("bad escape", token) from None
        return plain

    def _error(self, reason: str, token: _Token) -> ConstraintError:
        line = self.source.count("\n", 0, token.start) + 1
        column = token.start - self.source.rfind("\n", 0, token.start)
        return ConstraintError(f"line {line}, column {column}: {reason}")
