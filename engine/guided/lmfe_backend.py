"""The backend `lm-format-enforcer`: that library, which follows a text character by character."""

import re
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.guided.backend import Bitmask, CompiledGrammar, Grammar, Vocabulary
from engine.guided.bits import has_bit, set_bits
from engine.guided.conjunction import CompiledConjunction
from engine.guided.llguidance_backend import LLCompiledGrammar
from engine.guided.llguidance_job import build, new_tokenizer
from engine.guided.lmfe_job import make_job, single_characters
from engine.guided.no_torch import without_torch
from engine.guided.sandbox import PlainVocabulary, Sandbox
from engine.sampling_params import GuidedKind, GuidedParams

with without_torch():
    from lmformatenforcer import (  # type: ignore[import-untyped]
        CharacterLevelParser,
        JsonSchemaParser,
        RegexParser,
        TokenEnforcer,
        TokenEnforcerTokenizerData,
    )


class LMFormatEnforcerBackend:
    """Makes automata of regexes in a sandbox; schemas need no compilation.

    The library's JSON has faults, such as a comma after the last member or an exponent in an
    integer, so a grammar of llguidance stands guard beside it.
    """

    kinds: ClassVar[frozenset[GuidedKind]] = frozenset(("json", "regex", "choice"))

    def __init__(self, vocabulary: Vocabulary) -> None:
        plain = PlainVocabulary.of(vocabulary)
        self._sandbox = Sandbox(make_job, plain)
        self._text_data = new_tokenizer_data(plain, is_json=False)
        self._json_data = new_tokenizer_data(plain, is_json=True)
        self._guard_tokenizer = new_tokenizer(
            plain, partial(vocabulary.encode, add_special_tokens=False)
        )

    def compile(self, params: GuidedParams) -> CompiledGrammar:
        """Have the sandbox check the constraint and make what it needs."""
        made = self._sandbox.run(params)
        if params.kind != "json":
            return LMFECompiledGrammar(made, self._text_data)
        schema, guards = made
        parts: list[CompiledGrammar] = [LMFECompiledGrammar(schema, self._json_data)]
        parts += (LLCompiledGrammar(build(self._guard_tokenizer, guard)) for guard in guards)
        return CompiledConjunction.of(parts)

    def close(self) -> None:
        """End the sandbox."""
        self._sandbox.close()


class LMFECompiledGrammar:
    """A regex's automaton or a schema; allowed tokens are remembered for all candidates."""

    is_used_up = False

    def __init__(
        self, made: RegexParser | dict[str, Any], data: TokenEnforcerTokenizerData
    ) -> None:
        self._made = made
        self._data = data
        self._allowed_tokens: dict[Any, Any] = {}

    def start(self) -> "LMFEGrammar":
        """A parser of its own, since those of JSON share what they change."""
        made = self._made
        parser = JsonSchemaParser(made) if isinstance(made, dict) else made
        enforcer = TokenEnforcer(self._data, parser)
        enforcer.allowed_token_cache = self._allowed_tokens
        return LMFEGrammar(enforcer)


class LMFEGrammar(Grammar):
    """One candidate's parser after each of its tokens.

    TokenEnforcer knows a state by the tokens that led to it, which takes memory quadratic in
    their number. It only looks at the last one, so a number stands for those before it.
    """

    def __init__(self, enforcer: TokenEnforcer) -> None:
        self._enforcer = enforcer
        self._masks: list[NDArray[np.int32]] = []
        self._enter((0,))

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Copy the state's allowed tokens."""
        bitmask[row] = self._masks[-1]

    def accept(self, token_id: int) -> bool:
        """Go on by a token."""
        if token_id in self._enforcer.eos_token_id or not has_bit(self._masks[-1], token_id):
            return False
        self._enter((len(self._masks) - 1, token_id))
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take back tokens."""
        for _ in range(num_tokens):
            self._masks.pop()
            del self._enforcer.prefix_states[(len(self._masks),)]

    @property
    def can_end(self) -> bool:
        """Whether the text is complete."""
        can_end: bool = self._parser.can_end()
        return can_end

    @property
    def is_finished(self) -> bool:
        """Whether it is and only EOS is allowed."""
        return self.can_end and np.array_equal(self._masks[-1], self._eos_mask())

    @property
    def _parser(self) -> CharacterLevelParser:
        return self._enforcer.prefix_states[(len(self._masks) - 1,)].parser

    def _enter(self, tokens: tuple[int, ...]) -> None:
        states = self._enforcer.prefix_states
        allowed = self._enforcer.get_allowed_tokens(list(tokens)).allowed_tokens
        state = states[(len(self._masks),)] = states.pop(tokens)
        state.allowed_tokens = None  # a list that may hold most of the vocabulary
        mask = self._eos_mask() if state.parser.can_end() else np.zeros_like(self._eos_mask())
        # After a fault of its own the library allows EOS, and after JSON white space.
        eos = self._enforcer.eos_token_id
        if not (isinstance(state.parser, JsonSchemaParser) and not state.parser.object_stack):
            set_bits(mask, (token for token in allowed if token not in eos))
        self._masks.append(mask)

    def _eos_mask(self) -> NDArray[np.int32]:
        mask = np.zeros((self._enforcer.vocab_size + 31) // 32, np.int32)
        set_bits(mask, self._enforcer.eos_token_id)
        return mask


def new_tokenizer_data(plain: PlainVocabulary, *, is_json: bool) -> TokenEnforcerTokenizerData:
    """The vocabulary as characters: tokens that are no whole characters are never allowed.

    For JSON, three kinds that the library gets wrong in strings are left out: control characters,
    backslashes, and characters that are no token of their own.
    """
    characters = single_characters(plain)
    tokens = []
    for token_id, token in enumerate(plain.token_bytes):
        text = token.decode(errors="replace")
        is_text = text and "\ufffd" not in text and token_id not in plain.special_token_ids
        is_usual = characters.issuperset(text) and not re.search(r"[\x00-\x1f\\]", text)
        if is_text and (is_usual or not is_json):
            tokens.append((token_id, text, True))
    return TokenEnforcerTokenizerData(
        tokens,
        decoder=lambda ids: "".join(plain.token_bytes[i].decode(errors="replace") for i in ids),
        eos_token_id=list(plain.eos_token_ids),
        use_bitmask=False,
        vocab_size=len(plain.token_bytes),
    )
