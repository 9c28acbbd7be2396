"""The model: token ids in, logits out, keys and values left in their slots."""

from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.device import Device
from engine.kv_cache import KVCache
from engine.model_folder import ModelConfig

Ids = NDArray[np.int64]
Logits = NDArray[np.float32]


class Decoder:
    """Runs the rewritten graph (engine/graph) over consecutive slots.

    One IOBinding per range of slots is kept with its keys and values bound, because binding
    costs microseconds per tensor; ids, lengths and logits are bound anew in each run.
    """

    def __init__(
        self,
        graph: Path,
        model: ModelConfig,
        device: Device,
        cache: KVCache,
        num_threads: int | None,
    ) -> None:
        self._session = device.session(graph, num_threads)
        self._cache = cache
        self._has_position_ids = model.has_position_ids
        self._bindings: dict[tuple[int, int], ort.IOBinding] = {}
        (logits,) = [out for out in self._session.get_outputs() if out.name == "logits"]
        self.logits_width: int = logits.shape[-1]

    def decode(self, token_ids: Ids, lengths: Ids, logits: Logits) -> None:
        """One token for each of the slots 0..B-1.

        `token_ids` and `lengths` (tokens already in the slot) have shape (B,), `logits` (B, width).
        """
        rows = len(token_ids)
        self._run(0, token_ids[:, None], lengths, np.arange(rows), logits)

    def prefill(self, slot: int, token_ids: Ids, length: int, logits: Logits) -> None:
        """The next tokens of one slot that holds `length` tokens; `token_ids` has shape (S,).

        `logits` (R, width) takes those of the last R tokens.
        """
        size, wanted = len(token_ids), len(logits)
        index = np.arange(size - wanted, size)
        self._run(slot, token_ids[None, :], np.array([length]), index, logits)

    def _run(self, slot: int, token_ids: Ids, lengths: Ids, index: Ids, logits: Logits) -> None:
        rows, size = token_ids.shape
        binding = self._binding(slot, rows)
        last = lengths + size - 1
        binding.bind_cpu_input("input_ids", token_ids)
        if self._has_position_ids:
            positions = lengths[:, None] + np.arange(size)
            binding.bind_cpu_input("position_ids", positions)
        binding.bind_cpu_input("seqlens_k", last.astype(np.int32))
        binding.bind_cpu_input("total_sequence_length", np.array(last.max() + 1, np.int32))
        binding.bind_cpu_input("logits_index", index)
        binding.bind_output("logits", "cpu", 0, 1, logits.shape, logits.ctypes.data)
        self._session.run_with_iobinding(binding)

    def _binding(self, slot: int, rows: int) -> ort.IOBinding:
        if (slot, rows) not in self._bindings:
            binding = self._session.io_binding()
            self._cache.bind(binding, slot, rows)
            self._bindings[slot, rows] = binding
        return self._bindings[slot, rows]
