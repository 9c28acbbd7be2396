"""The default backend: llguidance, an Earley parser over lexemes that fills NumPy bitmasks."""

import logging
from collections.abc import Sequence
from functools import cache, partial
from typing import ClassVar, cast

from llguidance import LLExecutor, LLMatcher
from llguidance.numpy import fill_next_token_bitmask, fill_next_token_bitmask_par

from engine.guided.backend import Bitmask, CompiledGrammar, Grammar, Vocabulary
from engine.guided.conjunction import CompiledConjunction
from engine.guided.llguidance_job import build, make_job, new_tokenizer
from engine.guided.sandbox import PlainVocabulary, Sandbox
from engine.sampling_params import GuidedKind, GuidedParams

logger = logging.getLogger(__name__)


class LLGuidanceBackend:
    """Compiles everything in a sandbox first: what passes there can't harm this process."""

    kinds: ClassVar[frozenset[GuidedKind]] = frozenset(("json", "regex", "choice", "grammar"))

    def __init__(self, vocabulary: Vocabulary) -> None:
        plain = PlainVocabulary.of(vocabulary)
        self._tokenizer = new_tokenizer(plain, partial(vocabulary.encode, add_special_tokens=False))
        self._sandbox = Sandbox(make_job, plain)

    def compile(self, params: GuidedParams) -> CompiledGrammar:
        """Translate and check in the sandbox, then build here, where the GIL isn't held."""
        grammars: list[str] = self._sandbox.run(params)
        matchers = [build(self._tokenizer, grammar) for grammar in grammars]
        return CompiledConjunction.of([LLCompiledGrammar(matcher) for matcher in matchers])

    def close(self) -> None:
        """End the sandbox."""
        self._sandbox.close()


class LLCompiledGrammar:
    """A matcher at the beginning, to be copied.

    The copies share the lexer and the states that it learns, of which LIMITS allows so many.
    """

    def __init__(self, matcher: LLMatcher) -> None:
        self.is_used_up = False
        self._matcher = matcher

    def start(self) -> "LLGrammar":
        """A copy."""
        return LLGrammar(self._matcher.deep_copy(), self)


class LLGrammar(Grammar):
    """One candidate's matcher."""

    def __init__(self, matcher: LLMatcher, compiled: LLCompiledGrammar) -> None:
        self._matcher = matcher
        self._compiled = compiled

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Fill the row without holding the GIL."""
        fill_next_token_bitmask(self._matcher, bitmask, row)
        self._clear_if_failed(bitmask, row)

    def accept(self, token_id: int) -> bool:
        """Go on by a token."""
        return self._matcher.try_consume_tokens([token_id]) == 1

    def rollback(self, num_tokens: int) -> None:
        """Take back tokens."""
        self._matcher.rollback(num_tokens)

    @property
    def can_end(self) -> bool:
        """Whether the text is complete."""
        return self._matcher.is_accepting()

    @property
    def is_finished(self) -> bool:
        """Whether it is and nothing can follow."""
        return self._matcher.is_stopped() and self._matcher.is_accepting()

    @classmethod
    def fill_rows(cls, rows: Sequence[tuple[Grammar, int]], bitmask: Bitmask) -> None:
        """All rows at once on threads of the library's own, without the GIL."""
        ours = cast("Sequence[tuple[LLGrammar, int]]", rows)
        matchers = [(grammar._matcher, row) for grammar, row in ours]  # noqa: SLF001
        fill_next_token_bitmask_par(_executor(), matchers, bitmask)
        for grammar, row in ours:
            grammar._clear_if_failed(bitmask, row)  # noqa: SLF001

    def _clear_if_failed(self, bitmask: Bitmask, row: int) -> None:
        """After a fault, such as a step beyond LIMITS, the library would allow EOS."""
        if self._matcher.is_stopped() and not self._matcher.is_accepting():
            reason = self._matcher.get_error().partition("\n")[0]
            logger.warning("a constraint can't be followed: %s", reason)
            bitmask[row] = 0
            self._compiled.is_used_up = True


@cache
def _executor() -> LLExecutor:
    return LLExecutor()
