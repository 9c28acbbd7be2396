"""Which tokens lie in which slot, and how they get there without being computed again."""

from collections.abc import Iterator

import numpy as np

from engine.kv_cache import KVCache
from engine.sequence import Sequence, Tokens, common_prefix

EMPTY: Tokens = np.empty(0, np.int32)


class Slots:
    """Running sequences in slots 0, 1, 2 ..., so that a decode batch is a range of slots.

    The free slots behind them keep the prompts of finished sequences, which new ones may share
    (prefix reuse); generated tokens are not shared, for a prompt that held them would compute
    them by another kernel (see Scheduler). A prompt is computed in the `staging` slot, the last
    one, and then copied to where its sequence runs. Copies are the one mechanism: a copied token
    costs about a hundredth of a computed one.
    """

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self.num_slots = cache.num_slots - 1
        self.staging = cache.num_slots - 1
        self._running: list[Sequence] = []
        self._kept: list[Tokens] = [EMPTY] * self.num_slots
        self._last_used = [0] * self.num_slots
        self._clock = 0

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._running)

    @property
    def num_cached_tokens(self) -> int:
        """Tokens in all slots, those of finished sequences included."""
        running = sum(sequence.num_computed_tokens for sequence in self._running)
        return running + sum(map(len, self._kept[len(self._running) :]))

    def longest_prefix(self, prompt: Tokens) -> tuple[int, int]:
        """The slot that shares most of the prompt's leading tokens, and how many."""
        shared = [common_prefix(prompt, content) for content in self._contents()]
        slot = int(np.argmax(shared))
        if shared[slot] and slot >= len(self._running):
            self._touch(slot)
        return slot, shared[slot]

    def stage(self, sequence: Sequence, source: int, length: int) -> None:
        """Put a sequence into the staging slot, with the first `length` tokens of `source`."""
        self._share(sequence, self.staging, source, length)

    def run(self, sequence: Sequence, source: int, length: int) -> None:
        """Put a sequence behind the running ones, with the first `length` tokens of `source`."""
        slot = len(self._running)
        kept = self._kept[slot]
        if common_prefix(kept, sequence.tokens) < len(kept):
            self._rescue(slot, source)
        self._share(sequence, slot, source, length)
        self._running.append(sequence)

    def keep(self, sequence: Sequence) -> None:
        """Save a sequence's tokens in the free slot that was not used for longest, if any."""
        free = range(len(self._running), self.num_slots)
        if free:
            target = min(free, key=self._last_used.__getitem__)
            self._cache.copy(sequence.slot, target, len(sequence.prefilled))
            self._remember(target, sequence)

    def remove(self, sequence: Sequence) -> None:
        """Take out a running sequence, keep its tokens if there is room, and fill the gap."""
        slot, last = sequence.slot, self._running[-1]
        if sequence is not last:
            self.keep(sequence)
            self._cache.copy(last.slot, slot, last.num_computed_tokens)
            self._running[slot] = last
            self._kept[last.slot] = EMPTY
            last.slot = slot
        else:
            self._remember(slot, sequence)
        self._running.pop()

    def _contents(self) -> list[Tokens]:
        free = self._kept[len(self._running) :]
        return [sequence.prefilled for sequence in self._running] + free

    def _share(self, sequence: Sequence, slot: int, source: int, length: int) -> None:
        if source != slot and length:
            self._cache.copy(source, slot, length)
        sequence.slot = slot
        sequence.num_computed_tokens = length

    def _rescue(self, slot: int, source: int) -> None:
        """Before a free slot is overwritten, move its tokens over those of an older one."""
        age = self._last_used
        older = [other for other in range(slot + 1, self.num_slots) if age[other] < age[slot]]
        older = [other for other in older if other != source]
        if older:
            target = min(older, key=age.__getitem__)
            self._cache.copy(slot, target, len(self._kept[slot]))
            self._kept[target], age[target] = self._kept[slot], age[slot]

    def _remember(self, slot: int, sequence: Sequence) -> None:
        self._touch(slot)
        self._kept[slot] = sequence.prefilled.copy()

    def _touch(self, slot: int) -> None:
        self._clock += 1
        self._last_used[slot] = self._clock
