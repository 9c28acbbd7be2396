"""A model that is a function of the tokens in a slot, so that outputs are exactly comparable.

It stands in for the decoder and the cache at once. What lies in a slot is a list of tokens; a
wrong copy, a wrong length or a mixed-up row changes the logits, or fails at once.
"""

import zlib

import numpy as np

from engine.slots import Slots

WIDTH = 304


def install(engine):
    """Let an engine compute with a fake model; returns it. Forgets all requests."""
    model = FakeModel(engine.num_slots + 1)
    engine._cache = engine._decoder = model
    engine.reset()
    return model


def logits_of(context):
    """Logits (WIDTH,) of what follows the tokens."""
    seed = zlib.crc32(np.array(context, np.int64).tobytes())
    return np.random.default_rng(seed).normal(size=WIDTH, scale=2).astype(np.float32)


class FakeModel:
    """Records each step's runs as ("decode", rows) and ("prefill", slot, sizes)."""

    logits_width = WIDTH

    def __init__(self, num_slots):
        self.num_slots = num_slots
        self.memory = [[] for _ in range(num_slots)]
        self.runs = []

    def copy(self, source, target, length):
        assert length <= len(self.memory[source])
        self.memory[target] = self.memory[source][:length]

    def decode(self, token_ids, lengths, logits):
        self.runs.append(("decode", len(token_ids)))
        for slot, (token_id, length) in enumerate(zip(token_ids, lengths, strict=True)):
            self._append(slot, length, [token_id])
            logits[slot] = logits_of(self.memory[slot])

    def prefill(self, slot, chunks, length, wanted, logits):
        assert len(chunks) == 1 or length == 0
        self.runs.append(("prefill", slot, [len(chunk) for chunk in chunks]))
        rows = iter(logits)
        for place, (chunk, count) in enumerate(zip(chunks, wanted, strict=True), slot):
            self._append(place, length, chunk)
            end = length + len(chunk)
            for size in range(end - count + 1, end + 1):
                next(rows)[:] = logits_of(self.memory[place][:size])

    def _append(self, slot, length, token_ids):
        assert length <= len(self.memory[slot])
        self.memory[slot] = self.memory[slot][:length] + [int(each) for each in token_ids]

    def check(self, slots: Slots):
        """Assert that each slot holds what the engine believes."""
        for sequence in slots:
            size = sequence.num_computed_tokens
            assert self.memory[sequence.slot][:size] == sequence.tokens[:size].tolist()
        for slot in range(len(slots), slots.num_slots):
            kept = slots._kept[slot].tolist()
            assert self.memory[slot][: len(kept)] == kept
