"""Keys and values of all slots, appended to in place by GroupQueryAttention."""

import onnxruntime as ort

from engine.device import ITEM_BYTES, Device
from engine.model_folder import ModelConfig


class KVCache:
    """Two buffers per layer, each of shape (slots, kv_heads, capacity, head_dim).

    A run over rows sees consecutive slots: `past` and `present` are bound to one address, so the
    operator appends in place (ONNX Runtime's contrib operator documentation).
    """

    def __init__(self, model: ModelConfig, device: Device, num_slots: int, capacity: int) -> None:
        self.num_slots = num_slots
        self.capacity = capacity
        self._device = device
        self._row_shape = (model.num_kv_heads, capacity, model.head_dim)
        names = [f"{n}.{kind}" for n in range(model.num_layers) for kind in ("key", "value")]
        shape = (num_slots, *self._row_shape)
        self._buffers = {name: device.allocate(shape, model.kv_dtype) for name in names}

    def bind(self, binding: ort.IOBinding, first_slot: int, num_rows: int) -> None:
        """Let a run's rows append to the slots from `first_slot` on."""
        shape = (num_rows, *self._row_shape)
        for name, buffer in self._buffers.items():
            place = buffer.pointer + first_slot * buffer.row_bytes
            where = (self._device.name, 0, buffer.onnx_type, shape, place)
            binding.bind_input(f"past_key_values.{name}", *where)
            binding.bind_output(f"present.{name}", *where)

    def copy(self, source: int, target: int, length: int) -> None:
        """Make the first `length` tokens of one slot those of another."""
        for buffer in self._buffers.values():
            self._device.copy_row(buffer, source, target, length)


def slot_bytes(model: ModelConfig, capacity: int) -> int:
    """Memory behind one slot."""
    per_token = 2 * model.num_layers * model.num_kv_heads * model.head_dim
    return per_token * capacity * ITEM_BYTES[model.kv_dtype]
