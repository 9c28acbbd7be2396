"""What the backend `lm-format-enforcer` does in its sandbox: checks schemas, makes automata."""

import copyreg
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from interegular.fsm import FSM, anything_else
from interegular.patterns import InvalidSyntax, Unsupported

from engine.guided import llguidance_job
from engine.guided.backend import ConstraintError
from engine.guided.keywords import Dialect
from engine.guided.no_torch import without_torch
from engine.guided.patterns import check_quantifiers, strip_anchors
from engine.guided.sandbox import Job, PlainVocabulary
from engine.guided.schema import check_schema, parse_schema, subschemas
from engine.sampling_params import GuidedParams

with without_torch():
    from lmformatenforcer import RegexParser  # type: ignore[import-untyped]

WHITESPACE = "[ ]{0,12}"
"""The library's own bound."""

# It is compared by identity, which an ordinary copy in another process would lose.
copyreg.pickle(type(anything_else), lambda _: "anything_else")

# What the library enforces. It overlooks numeric ranges, `pattern` and `format`.
DIALECT = Dialect(
    backend="lm-format-enforcer",
    keywords=frozenset(
        (
            *("$schema", "type", "const", "enum", "anyOf", "$ref"),
            *("minLength", "maxLength"),
            *("items", "minItems", "maxItems", "properties", "required", "additionalProperties"),
        )
    ),
    forms={
        "anyOf": frozenset(),
        "const": frozenset(),
        "enum": frozenset(),
        "$ref": frozenset(),
        "properties": frozenset(("required", "additionalProperties")),
        "string": frozenset(("minLength", "maxLength")),
        "object": frozenset(),
        "array": frozenset(("items", "minItems", "maxItems")),
        "integer": frozenset(),
        "number": frozenset(),
        "boolean": frozenset(),
        "null": frozenset(),
    },
    refs=r"#/(\$defs|definitions)/\w+$",
    plain_literals=True,
)


def make_job(plain: PlainVocabulary) -> Job:
    """What the sandbox does: checks a schema and makes its guards, or makes an automaton."""
    characters = single_characters(plain)
    make_guards = llguidance_job.make_job(plain)

    def job(params: GuidedParams) -> tuple[dict[str, Any], list[str]] | RegexParser:
        if params.kind == "json":
            schema = _schema(params, characters)
            return schema, make_guards(replace(params, whitespace_pattern=WHITESPACE))
        if params.kind == "choice":
            return _automaton("|".join(map(re.escape, json.loads(params.source))), characters)
        check_quantifiers(params.source, "the pattern")
        return _automaton(strip_anchors(params.source), characters)

    return job


def single_characters(plain: PlainVocabulary) -> set[str]:
    """The characters that are a token of their own, which are all that the library can follow."""
    texts = (token.decode(errors="ignore") for token in plain.token_bytes)
    return {text for text in texts if len(text) == 1}


def _schema(params: GuidedParams, characters: set[str]) -> dict[str, Any]:
    if params.whitespace_pattern is not None:
        raise ConstraintError(
            "not supported by lm-format-enforcer", field="guided_whitespace_pattern"
        )
    schema = parse_schema(params.source)
    check_schema(schema, DIALECT)
    if isinstance(schema, bool):
        raise ConstraintError("a boolean schema is not supported by lm-format-enforcer")
    for literal in _literals(schema):
        if missing := set(literal) - characters:
            raise ConstraintError(f"this model has no token for {min(missing)!r} alone")
    return schema


def _literals(schema: Any) -> Iterator[str]:
    """All strings that a value may have to contain."""
    yield from schema.get("properties", ())
    yield from schema.get("enum", ())
    yield from filter(None, [schema.get("const")])
    definitions = schema.get("$defs", {}) | schema.get("definitions", {})
    for child in (*definitions.values(), *(child for *_, child in subschemas(schema))):
        if isinstance(child, dict):
            yield from _literals(child)


def _automaton(pattern: str, characters: set[str]) -> RegexParser:
    try:
        parser = RegexParser(pattern)
    except (InvalidSyntax, Unsupported) as error:
        raise ConstraintError(f"the pattern is not supported: {error}") from None
    automaton = parser.context.pattern
    live = _live_states(automaton, characters)
    if automaton.initial not in live:
        raise ConstraintError("no text of this model's tokens satisfies it")
    for state, transitions in automaton.map.items():
        automaton.map[state] = {by: to for by, to in transitions.items() if to in live}
    return parser


def _live_states(automaton: FSM, characters: set[str]) -> set[Any]:
    """The states from which a final one can be reached: the library doesn't avoid the others."""
    sources: dict[Any, set[Any]] = {}
    for state, transitions in automaton.map.items():
        for symbols, target in transitions.items():
            if not characters.isdisjoint(automaton.alphabet.by_transition[symbols]) or (
                anything_else in automaton.alphabet.by_transition[symbols]
            ):
                sources.setdefault(target, set()).add(state)
    live: set[Any] = set()
    waiting: list[Any] = list(automaton.finals)
    while waiting:
        state = waiting.pop()
        if state not in live:
            live.add(state)
            waiting += sources.get(state, ())
    return live
