"""The backend `outlines`: outlines-core, which makes one automaton over tokens of a regex."""

import json
import re
from typing import ClassVar

from outlines_core import Guide, Index  # type: ignore[import-untyped]
from outlines_core import Vocabulary as OutlinesVocabulary
from outlines_core.json_schema import build_regex_from_schema  # type: ignore[import-untyped]

from engine.guided.backend import Bitmask, ConstraintError, Grammar, Vocabulary
from engine.guided.bits import set_bits
from engine.guided.keywords import Dialect
from engine.guided.patterns import check_quantifiers, strip_anchors
from engine.guided.sandbox import Job, PlainVocabulary, Sandbox
from engine.guided.schema import check_schema, parse_schema
from engine.sampling_params import GuidedKind, GuidedParams

# What the library translates into a regex that is right. Left out, since it overlooks or
# mistranslates them: numeric ranges, `pattern`, `allOf`, `oneOf`, most formats.
DIALECT = Dialect(
    backend="outlines",
    keywords=frozenset(
        (
            *(
                "$schema",
                "type",
                "const",
                "enum",
                "anyOf",
                "$ref",
                "minLength",
                "maxLength",
                "format",
            ),
            *("items", "minItems", "maxItems", "properties", "required", "additionalProperties"),
        )
    ),
    formats=frozenset(("uuid",)),
    forms={
        "properties": frozenset(("required", "additionalProperties")),
        "anyOf": frozenset(),
        "enum": frozenset(),
        "const": frozenset(),
        "$ref": frozenset(),
        "format": frozenset(),
        "string": frozenset(("minLength", "maxLength")),
        "array": frozenset(("items", "minItems", "maxItems")),
        "object": frozenset(("additionalProperties",)),
        "integer": frozenset(),
        "number": frozenset(),
        "boolean": frozenset(),
        "null": frozenset(),
    },
    refs=r"#/(\$defs|definitions)/\w+$",
    recursive=False,
)

MAX_ROLLBACK = 128


class OutlinesBackend:
    """Makes the automaton in a sandbox: it may take long and much memory."""

    kinds: ClassVar[frozenset[GuidedKind]] = frozenset(("json", "regex", "choice"))

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._sandbox = Sandbox(make_job, PlainVocabulary.of(vocabulary))
        self._eos_token_ids = list(vocabulary.eos_token_ids)

    def compile(self, params: GuidedParams) -> "OutlinesCompiledGrammar":
        """Have the sandbox make the automaton."""
        return OutlinesCompiledGrammar(self._sandbox.run(params), self._eos_token_ids)

    def close(self) -> None:
        """End the sandbox."""
        self._sandbox.close()


class OutlinesCompiledGrammar:
    """An automaton; which of its states are last ones is remembered for all candidates."""

    def __init__(self, index: Index, eos_token_ids: list[int]) -> None:
        self._index = index
        self.eos_token_ids = eos_token_ids
        self.is_last: dict[int, bool] = {}

    def start(self) -> "OutlinesGrammar":
        """The first state."""
        return OutlinesGrammar(Guide(self._index, MAX_ROLLBACK), self)


class OutlinesGrammar(Grammar):
    """One candidate's state; the last MAX_ROLLBACK tokens can be taken back."""

    def __init__(self, guide: Guide, compiled: OutlinesCompiledGrammar) -> None:
        self._guide = guide
        self._compiled = compiled

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Copy the state's allowed tokens; the library knows of one EOS only."""
        target = bitmask[row]
        self._guide.write_mask_into(target.ctypes.data, target.size, target.itemsize)
        if self.can_end:
            set_bits(target, self._compiled.eos_token_ids)

    def accept(self, token_id: int) -> bool:
        """Go on by a token."""
        if not self._guide.accepts_tokens([token_id]):
            return False
        self._guide.advance(token_id, return_tokens=False)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take back tokens."""
        self._guide.rollback_state(num_tokens)

    @property
    def can_end(self) -> bool:
        """Whether the state is a final one."""
        return bool(self._guide.is_finished())

    @property
    def is_finished(self) -> bool:
        """Whether it is and no transition but EOS leaves it."""
        if not self.can_end:
            return False
        state = self._guide.get_state()
        if state not in self._compiled.is_last:
            others = set(self._guide.get_tokens()) - set(self._compiled.eos_token_ids)
            self._compiled.is_last[state] = not others
        return self._compiled.is_last[state]


def make_job(plain: PlainVocabulary) -> Job:
    """What the sandbox does: from a constraint to an automaton."""
    ids: dict[bytes, list[int]] = {}
    for token_id, token in enumerate(plain.token_bytes):
        if token and token_id not in plain.special_token_ids:
            ids.setdefault(token, []).append(token_id)
    vocabulary = OutlinesVocabulary(plain.eos_token_ids[0], ids)

    def job(params: GuidedParams) -> Index:
        try:
            return Index(to_regex(params), vocabulary)
        except ValueError as error:
            raise ConstraintError(str(error)) from None

    return job


def to_regex(params: GuidedParams) -> str:
    """Write a constraint as a regex; raises ConstraintError."""
    if params.kind == "choice":
        # The library prefers the first alternative that matches, so the longest must be first.
        items = sorted(json.loads(params.source), key=len, reverse=True)
        return "|".join(map(re.escape, items))
    if params.kind == "regex":
        check_quantifiers(params.source, "the pattern")
        return strip_anchors(params.source)
    schema = parse_schema(params.source)
    check_schema(schema, DIALECT)
    try:
        return str(build_regex_from_schema(json.dumps(schema), params.whitespace_pattern))
    except ValueError as error:
        raise ConstraintError(str(error)) from None
