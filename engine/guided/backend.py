"""The seam of guided decoding: what compiles a constraint and what follows it token by token."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.sampling_params import GuidedKind, GuidedParams

Bitmask = NDArray[np.int32]
"""Allowed tokens, one row per candidate: bit `t % 32` of word `t // 32` belongs to token `t`."""


class ConstraintError(Exception):
    """A constraint can't be honoured; the message says where and why.

    `field` names the field at fault where that is not the constraint itself.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class Vocabulary(Protocol):
    """What a backend needs to know of a tokenizer; `engine.tokenizer.Tokenizer` is one."""

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, without padding."""

    @property
    def token_bytes(self) -> Sequence[bytes]:
        """The true bytes of every token, by id."""

    @property
    def eos_token_ids(self) -> Sequence[int]:
        """Every token that ends a completion."""

    def is_special(self, token_id: int) -> bool:
        """Whether a token stands for no text."""

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> list[int]:
        """Split a text into tokens."""


class Grammar(ABC):
    """One candidate's place in a constraint.

    EOS is no part of the text: it is never given to `accept`.
    """

    @abstractmethod
    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Write the allowed tokens into a row, every EOS among them where the text can end.

        There is always one, or else the backend knows no way to go on.
        """

    @abstractmethod
    def accept(self, token_id: int) -> bool:
        """Go on by a token; False, and no change, if the constraint forbids it."""

    @abstractmethod
    def rollback(self, num_tokens: int) -> None:
        """Take back the last accepted tokens."""

    @property
    @abstractmethod
    def can_end(self) -> bool:
        """Whether the text so far satisfies the constraint."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether it does and nothing can follow."""

    @classmethod
    def fill_rows(cls, rows: Sequence[tuple["Grammar", int]], bitmask: Bitmask) -> None:
        """Fill several rows for grammars of this class, at once where the backend can."""
        for grammar, row in rows:
            grammar.fill_bitmask(bitmask, row)


class CompiledGrammar(Protocol):
    """A compiled constraint, shared by all candidates that follow it."""

    @property
    def is_used_up(self) -> bool:
        """Whether it reached a bound on what it learns from its candidates; no more can start."""

    def start(self) -> Grammar:
        """A new candidate's place: the beginning."""


class Backend(Protocol):
    """Compiles constraints for one tokenizer; made by calling its class with a Vocabulary.

    `compile` runs on a thread of its own and may be called by several at a time.
    """

    kinds: ClassVar[frozenset[GuidedKind]]

    def __init__(self, vocabulary: Vocabulary) -> None: ...

    def compile(self, params: GuidedParams) -> CompiledGrammar:
        """Raises ConstraintError."""


def new_bitmask(num_rows: int, vocab_size: int) -> Bitmask:
    """A bitmask of shape (rows, words) that allows everything."""
    return np.full((num_rows, (vocab_size + 31) // 32), -1, np.int32)


def fill_bitmasks(rows: Sequence[tuple[Grammar, int]], bitmask: Bitmask) -> None:
    """Fill the rows of a batch, whichever backends their grammars come from."""
    by_class: dict[type[Grammar], list[tuple[Grammar, int]]] = {}
    for grammar, row in rows:
        by_class.setdefault(type(grammar), []).append((grammar, row))
    for grammar_class, its_rows in by_class.items():
        grammar_class.fill_rows(its_rows, bitmask)
