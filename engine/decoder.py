"""The model: token ids in, logits out, keys and values left in their slots."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.device import Device
from engine.kv_cache import KVCache

Ids = NDArray[np.int64]
Tokens = NDArray[np.int32]
Logits = NDArray[np.float32]


class Decoder:
    """Runs the rewritten graph (engine/graph) over consecutive slots.

    One IOBinding per range of slots is kept with its keys and values bound, because binding
    costs microseconds per tensor; ids, lengths and logits are bound anew in each run.
    """

    def __init__(
        self, graph: Path, device: Device, cache: KVCache, num_threads: int | None
    ) -> None:
        self._session = device.session(graph, num_threads)
        self._cache = cache
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._bindings: dict[tuple[int, int], ort.IOBinding] = {}
        (logits,) = [out for out in self._session.get_outputs() if out.name == "logits"]
        self.logits_width: int = logits.shape[-1]

    def decode(self, token_ids: Ids, lengths: Ids, logits: Logits) -> None:
        """One token for each of the slots 0..B-1.

        `token_ids` and `lengths` (tokens already in the slot) have shape (B,), `logits` (B, width).
        """
        rows = np.arange(len(token_ids))
        self._run(0, _feeds(token_ids[:, None], lengths, lengths, rows), logits)

    def prefill(
        self,
        slot: int,
        chunks: Sequence[Tokens],
        length: int,
        wanted: Sequence[int],
        logits: Logits,
    ) -> None:
        """The next tokens of the slots from `slot` on, each of which holds `length` tokens.

        GroupQueryAttention takes several chunks (S,) at once only if the slots are empty. `logits`
        (sum of `wanted`, width) takes those of the last `wanted` tokens of each chunk, in order.
        """
        sizes = np.array([len(chunk) for chunk in chunks])
        token_ids = np.zeros((len(chunks), sizes.max()), np.int64)
        for row, chunk in zip(token_ids, chunks, strict=True):
            row[: len(chunk)] = chunk
        ends = np.arange(len(chunks)) * sizes.max() + sizes
        index = [np.arange(end - each, end) for end, each in zip(ends, wanted, strict=True)]
        lengths = np.full(len(chunks), length)
        last = lengths + sizes - 1
        self._run(slot, _feeds(token_ids, lengths, last, np.concatenate(index)), logits)

    def _run(self, slot: int, feeds: dict[str, NDArray[Any]], logits: Logits) -> None:
        binding = self._binding(slot, len(feeds["input_ids"]))
        for name, array in feeds.items():
            if name in self._inputs:
                binding.bind_cpu_input(name, array)
        binding.bind_output("logits", "cpu", 0, 1, logits.shape, logits.ctypes.data)
        self._session.run_with_iobinding(binding)

    def _binding(self, slot: int, rows: int) -> ort.IOBinding:
        if (slot, rows) not in self._bindings:
            binding = self._session.io_binding()
            self._cache.bind(binding, slot, rows)
            self._bindings[slot, rows] = binding
        return self._bindings[slot, rows]


def _feeds(token_ids: Ids, lengths: Ids, last: Ids, index: Ids) -> dict[str, NDArray[Any]]:
    """The graph's inputs for `token_ids` (B, S) behind `lengths` (B,) tokens.

    `last` (B,) are the positions of the rows' last tokens, `index` the wanted logits among the
    B times S.
    """
    return {
        "input_ids": token_ids,
        "position_ids": lengths[:, None] + np.arange(token_ids.shape[1]),
        "seqlens_k": last.astype(np.int32),
        "total_sequence_length": np.array(last.max() + 1, np.int32),
        "logits_index": index,
    }
