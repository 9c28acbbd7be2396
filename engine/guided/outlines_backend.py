"""The backend `outlines`: outlines-core, which makes one automaton over tokens of a regex."""

import json
import re
from typing import ClassVar

from outlines_core import Guide, Index  # type: ignore[import-untyped]
from outlines_core import Vocabulary as OutlinesVocabulary
from outlines_core.json_schema import build_regex_from_schema  # type: ignore[import-untyped]

from engine.guided.backend import Bitmask, ConstraintError, Grammar, Vocabulary
from engine.guided.bits import clear_bits
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

END = "\U0010ffff"
"""A noncharacter that spells EOS, so that the end of a text is a transition like any other.

No other token may have its first byte, which costs the private characters of plane 16.

Left to itself the library forgets most of what may follow a text that could also end: it takes
the first alternative that matches, and leaves no final state for one that isn't final.
"""

END_BYTE = END.encode()[:1]


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
    """An automaton; in which of its states a text can end is remembered for all candidates."""

    is_used_up = False

    def __init__(self, index: Index, eos_token_ids: list[int]) -> None:
        self.index = index
        self.eos_token_ids = eos_token_ids
        self.can_end: dict[int, bool] = {}
        self.can_go_on: dict[int, bool] = {}

    def start(self) -> "OutlinesGrammar":
        """The first state."""
        return OutlinesGrammar(Guide(self.index, MAX_ROLLBACK), self)


class OutlinesGrammar(Grammar):
    """One candidate's state; the last MAX_ROLLBACK tokens can be taken back."""

    def __init__(self, guide: Guide, compiled: OutlinesCompiledGrammar) -> None:
        self._guide = guide
        self._compiled = compiled

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Copy the state's allowed tokens."""
        target = bitmask[row]
        self._guide.write_mask_into(target.ctypes.data, target.size, target.itemsize)
        if not self.can_end:
            clear_bits(target, self._compiled.eos_token_ids)

    def accept(self, token_id: int) -> bool:
        """Go on by a token."""
        is_eos = token_id in self._compiled.eos_token_ids
        if is_eos or not self._guide.accepts_tokens([token_id]):
            return False
        self._guide.advance(token_id, return_tokens=False)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take back tokens."""
        self._guide.rollback_state(num_tokens)

    @property
    def can_end(self) -> bool:
        """Whether EOS leads to a final state, and not to one where it was taken for text."""
        known, state = self._compiled.can_end, self._guide.get_state()
        if state not in known:
            index = self._compiled.index
            after = index.get_next_state(state, self._compiled.eos_token_ids[0])
            known[state] = after is not None and index.is_final_state(after)
        return known[state]

    @property
    def is_finished(self) -> bool:
        """Whether EOS is the only way to go on."""
        known, state = self._compiled.can_go_on, self._guide.get_state()
        if self.can_end and state not in known:
            known[state] = not set(self._guide.get_tokens()) <= set(self._compiled.eos_token_ids)
        return self.can_end and not known[state]


def make_job(plain: PlainVocabulary) -> Job:
    """What the sandbox does: from a constraint to an automaton."""
    ids: dict[bytes, list[int]] = {}
    for token_id, token in enumerate(plain.token_bytes):
        if token and token_id not in plain.special_token_ids and END_BYTE not in token:
            ids.setdefault(token, []).append(token_id)
    ids[END.encode()] = list(plain.eos_token_ids)
    no_token = len(plain.token_bytes)  # what the library would end a text with
    vocabulary = OutlinesVocabulary(no_token, ids)
    single_bytes = OutlinesVocabulary(256, {bytes([byte]): [byte] for byte in range(256)})

    def job(params: GuidedParams) -> Index:
        regex = to_regex(params)
        try:
            Index(regex, single_bytes)  # a faulty pattern could be mended by what is put around it
            return Index(f"(?:{regex}){END}", vocabulary)
        except ValueError as error:
            raise ConstraintError(str(error)) from None

    return job


def to_regex(params: GuidedParams) -> str:
    """Write a constraint as a regex; raises ConstraintError."""
    if params.kind == "choice":
        return "|".join(map(re.escape, json.loads(params.source)))
    if params.kind == "regex":
        check_quantifiers(params.source, "the pattern")
        return strip_anchors(params.source)
    schema = parse_schema(params.source)
    check_schema(schema, DIALECT)
    try:
        return str(build_regex_from_schema(json.dumps(schema), params.whitespace_pattern))
    except ValueError as error:
        raise ConstraintError(str(error)) from None
