"""From a constraint to grammars for llguidance: what the default backend does in its sandbox."""

import json
import re
from collections.abc import Callable

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from engine.guided import whitespace
from engine.guided.backend import ConstraintError
from engine.guided.formats import STRICTER
from engine.guided.gbnf import is_gbnf
from engine.guided.keywords import Dialect
from engine.guided.lark import gbnf_to_lark
from engine.guided.patterns import check_quantifiers, strip_anchors
from engine.guided.sandbox import Job, PlainVocabulary
from engine.guided.schema import Schema, check_schema, parse_schema, subschemas
from engine.sampling_params import GuidedParams

DIALECT = Dialect(
    backend="llguidance",
    keywords=frozenset(
        (
            *("$schema", "$id", "$ref", "type", "const", "enum", "anyOf", "oneOf", "allOf"),
            *("items", "prefixItems", "additionalItems", "minItems", "maxItems"),
            *("properties", "patternProperties", "additionalProperties", "required"),
            *("minProperties", "maxProperties", "minLength", "maxLength", "pattern", "format"),
            *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        )
    ),
    formats=frozenset(
        (
            *("date-time", "date", "time", "duration", "email", "hostname"),
            *("ipv4", "ipv6", "uuid", "uri"),
        )
    ),
    stricter_formats=STRICTER,
)

# The states of a lexer take about 10 MB at most, and a step that runs out of fuel fails.
LIMITS = LLParserLimits(max_lexer_states=20_000, verbose_errors=False)

NO_TEXT = "no text satisfies it"


def new_tokenizer(plain: PlainVocabulary, encode: Callable[[str], list[int]]) -> LLTokenizer:
    """A tokenizer that knows the tokens' true bytes and splits forced texts by `encode`."""
    return LLTokenizer(
        TokenizerWrapper(_Tokens(plain, encode)),
        n_vocab=len(plain.token_bytes),
        eos_token=list(plain.eos_token_ids),
    )


class _Tokens:
    """What TokenizerWrapper asks for."""

    bos_token_id = None

    def __init__(self, plain: PlainVocabulary, encode: Callable[[str], list[int]]) -> None:
        self.tokens = plain.token_bytes
        self.eos_token_id = plain.eos_token_ids[0]
        self.special_token_ids = sorted(plain.special_token_ids)
        self._encode = encode

    def __call__(self, text: str) -> list[int]:
        return self._encode(text)


def make_job(vocabulary: PlainVocabulary) -> Job:
    """Translates constraints into grammars, of which each builds and begins with some token."""

    def split(text: str) -> list[int]:
        return tokenizer.greedy_tokenize(text)  # whether a grammar builds doesn't depend on it

    tokenizer = new_tokenizer(vocabulary, split)

    def job(params: GuidedParams) -> list[str]:
        layout = _layout(tokenizer, params.whitespace_pattern)
        grammar = _TRANSLATE[params.kind](params.source, params.whitespace_pattern)
        try:
            check_start(build(tokenizer, grammar))
        except ConstraintError as error:
            raise _located(error, tokenizer, params) from None
        return [grammar, *layout]

    return job


def build(tokenizer: LLTokenizer, grammar: str) -> LLMatcher:
    """Compile a grammar of llguidance; raises ConstraintError."""
    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=LIMITS)
    if matcher.is_error():
        raise ConstraintError(_reason(matcher.get_error()))
    if warnings := matcher.get_grammar_warnings():
        raise ConstraintError(warnings[0])
    return matcher


def check_start(matcher: LLMatcher) -> None:
    """Refuse a grammar that has no first token, or goes astray with it."""
    mask = int.from_bytes(matcher.compute_bitmask(), "little")
    if mask and not matcher.is_accepting():
        first = (mask & -mask).bit_length() - 1
        mask = matcher.try_consume_tokens([first])
    if matcher.is_error():
        raise ConstraintError(_reason(matcher.get_error()))
    if not mask:
        raise ConstraintError(NO_TEXT)


def _json(source: str, whitespace_pattern: str | None) -> str:
    schema = parse_schema(source)
    if schema is False:
        raise ConstraintError("no value satisfies the schema `false`")
    check_schema(schema, DIALECT)
    return _schema_grammar(schema, whitespace_pattern)


def _schema_grammar(schema: Schema, whitespace_pattern: str | None) -> str:
    if isinstance(schema, bool):
        schema = {} if schema else {"enum": []}
    text = json.dumps(schema)
    # A name with a control character could otherwise be spelt \u000a, past its own schema.
    escapes = 'nrbtf\\"' if re.search(r"\\[bfnrt]", text) else 'nrbtf\\"u'
    pattern = whitespace.DEFAULT if whitespace_pattern is None else whitespace_pattern
    try:
        return LLMatcher.grammar_from_json_schema(
            text, overrides={"whitespace_pattern": pattern, "json_allowed_escapes": escapes}
        )
    except ValueError as error:
        raise ConstraintError(str(error)) from None


def _regex(source: str, _whitespace_pattern: str | None) -> str:
    check_quantifiers(source, "the pattern")
    return LLMatcher.grammar_from_regex(strip_anchors(source))


def _choice(source: str, _whitespace_pattern: str | None) -> str:
    # One lexeme, so that an item may be the beginning of another.
    items = " | ".join(json.dumps(item) for item in json.loads(source))
    return LLMatcher.grammar_from_lark(f"start: CHOICE\nCHOICE: {items}\n")


def _grammar(source: str, _whitespace_pattern: str | None) -> str:
    return LLMatcher.grammar_from_lark(gbnf_to_lark(source) if is_gbnf(source) else source)


_TRANSLATE: dict[str, Callable[[str, str | None], str]] = {
    "json": _json,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
}


def _layout(tokenizer: LLTokenizer, pattern: str | None) -> list[str]:
    """The grammar that makes white space compulsory, where the pattern doesn't match nothing."""
    if pattern is None:
        return []
    try:
        check_quantifiers(pattern, "the pattern")
        if build(tokenizer, LLMatcher.grammar_from_regex(pattern)).is_accepting():
            return []
        grammar = LLMatcher.grammar_from_lark(whitespace.layout(pattern))
        check_start(build(tokenizer, grammar))
    except ConstraintError as error:
        raise ConstraintError(error.message, "guided_whitespace_pattern") from None
    return [grammar]


def _located(error: ConstraintError, tokenizer: LLTokenizer, params: GuidedParams) -> Exception:
    """Add the JSON pointer of the smallest schema that has the same fault on its own."""
    if params.kind != "json":
        return error
    root = schema = parse_schema(params.source)
    pointer = "#"
    while culprit := next(
        (
            (inside, child)
            for _, inside, child in subschemas(schema)
            if _fault(child, root, tokenizer) == error.message
        ),
        None,
    ):
        pointer, schema = pointer + culprit[0], culprit[1]
    return ConstraintError(f"{pointer}: {error.message}")


def _fault(schema: Schema, root: Schema, tokenizer: LLTokenizer) -> str | None:
    if isinstance(schema, dict) and isinstance(root, dict):
        schema = {"$defs": root.get("$defs", {})} | schema
    try:
        build(tokenizer, _schema_grammar(schema, None))
    except ConstraintError as error:
        return error.message
    return None


def _reason(message: str) -> str:
    """The message of llguidance without the grammar that we wrote around the source."""
    if in_regex := re.search(r"regex parse error:\n    .*\n    ( *)\^+\nerror: (.*)", message):
        return f"{in_regex[2]} at character {len(in_regex[1])} of the pattern"
    if message.startswith("NoExtension"):
        return NO_TEXT
    if message.startswith("oneOf constraints"):
        return "`oneOf` is only supported where no value can satisfy two of its schemas"
    message = message.replace("patternProperty regexes", "the patterns of `patternProperties`")
    message = re.sub(r"^at \d+\(\d+\): ", "", message)
    message = re.sub(r"^invalid regex .*? \(in regex\): ", "", message, flags=re.DOTALL)
    return re.split(r"\n +\d+ \| |\n  while |\n?<", message)[0].strip()
