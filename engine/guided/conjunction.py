"""Several constraints on one text."""

from collections.abc import Sequence

import numpy as np

from engine.guided.backend import Bitmask, CompiledGrammar, Grammar


class CompiledConjunction:
    """Constraints that must all hold."""

    def __init__(self, parts: Sequence[CompiledGrammar]) -> None:
        self._parts = parts

    @property
    def is_used_up(self) -> bool:
        """Whether one of them is."""
        return any(part.is_used_up for part in self._parts)

    @staticmethod
    def of(parts: Sequence[CompiledGrammar]) -> CompiledGrammar:
        """All of the parts, or the one part itself."""
        return parts[0] if len(parts) == 1 else CompiledConjunction(parts)

    def start(self) -> "Conjunction":
        """The beginning in every part."""
        return Conjunction([part.start() for part in self._parts])


class Conjunction(Grammar):
    """One candidate's place in each of several constraints."""

    def __init__(self, parts: list[Grammar]) -> None:
        self._parts = parts

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Allow what every part allows."""
        masks = np.empty((len(self._parts), bitmask.shape[1]), np.int32)
        for i, part in enumerate(self._parts):
            part.fill_bitmask(masks, i)
        bitmask[row] = np.bitwise_and.reduce(masks)

    def accept(self, token_id: int) -> bool:
        """Go on in every part or in none."""
        for i, part in enumerate(self._parts):
            if not part.accept(token_id):
                for done in self._parts[:i]:
                    done.rollback(1)
                return False
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take back tokens in every part."""
        for part in self._parts:
            part.rollback(num_tokens)

    @property
    def can_end(self) -> bool:
        """Whether the text is complete for all."""
        return all(part.can_end for part in self._parts)

    @property
    def is_finished(self) -> bool:
        """Whether it is and nothing can follow for one of them."""
        return self.can_end and any(part.is_finished for part in self._parts)
