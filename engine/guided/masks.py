"""The bitmask of a batch, filled while the model computes."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from engine.guided.backend import Bitmask, Grammar, fill_bitmasks, new_bitmask

Grammars = Sequence[Grammar | None]
"""Those of a batch, row by row; None is a row without a constraint."""


class MaskFiller:
    """Finds out beside the model's run what may come next: it is known before.

    One thread is enough, since backends fill without the GIL or on threads of their own.
    """

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._pool = ThreadPoolExecutor(1, "guided-masks")  # it starts when it is first needed
        self._begun: Future[Bitmask | None] | None = None
        self._num_begun = 0

    def begin(self, grammars: Grammars) -> None:
        """Start with the rows that the coming batch begins with."""
        self._num_begun = len(grammars)
        self._begun = self._pool.submit(self._fill, grammars) if any(grammars) else None

    def finish(self, grammars: Grammars) -> Bitmask | None:
        """The bitmask of the whole batch; None if no row has a constraint."""
        rest = self._fill(grammars[self._num_begun :])
        begun = self._begun.result() if self._begun else None
        if begun is None and rest is None:
            return None
        bitmask = new_bitmask(len(grammars), self._vocab_size)
        if begun is not None:
            bitmask[: self._num_begun] = begun
        if rest is not None:
            bitmask[self._num_begun :] = rest
        return bitmask

    def _fill(self, grammars: Grammars) -> Bitmask | None:
        rows = [(grammar, row) for row, grammar in enumerate(grammars) if grammar]
        if not rows:
            return None
        bitmask = new_bitmask(len(grammars), self._vocab_size)
        fill_bitmasks(rows, bitmask)
        return bitmask
