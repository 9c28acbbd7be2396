"""Keys and values in slots: what a run's rows see, and what a copy moves."""

import ctypes

import numpy as np
import pytest

from engine.device import CpuDevice
from engine.kv_cache import KVCache, slot_bytes
from tests.engine.tiny import CONFIG

SLOTS, CAPACITY = 5, 6
NAMES = [f"{layer}.{kind}" for layer in range(CONFIG.num_layers) for kind in ("key", "value")]


class Binding:
    """Records what is bound, as shape and address by name."""

    def __init__(self):
        self.inputs, self.outputs = {}, {}

    def bind_input(self, name, device, device_id, element_type, shape, pointer):
        self.inputs[name] = shape, pointer

    def bind_output(self, name, device, device_id, element_type, shape, pointer):
        self.outputs[name] = shape, pointer

    def array(self, name):
        """The bound memory itself."""
        shape, pointer = self.inputs[name]
        numbers = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
        return np.ctypeslib.as_array(numbers, shape)


@pytest.fixture
def cache():
    return KVCache(CONFIG, CpuDevice(), SLOTS, CAPACITY)


def bind(cache, first_slot, num_rows):
    binding = Binding()
    cache.bind(binding, first_slot, num_rows)
    return binding


def test_past_and_present_are_one_memory(cache):
    binding = bind(cache, 1, 3)
    assert set(binding.inputs) == {f"past_key_values.{name}" for name in NAMES}
    assert set(binding.outputs) == {f"present.{name}" for name in NAMES}
    shape = (3, CONFIG.num_kv_heads, CAPACITY, CONFIG.head_dim)
    for name in NAMES:
        past, present = (
            binding.inputs[f"past_key_values.{name}"],
            binding.outputs[f"present.{name}"],
        )
        assert past == present
        assert past[0] == shape


def test_rows_are_the_slots_from_the_first_on(cache):
    name = "past_key_values.1.value"
    everything = bind(cache, 0, SLOTS).array(name)
    everything[:] = np.arange(everything.size).reshape(everything.shape)
    for first in range(SLOTS):
        rows = bind(cache, first, SLOTS - first).array(name)
        np.testing.assert_array_equal(rows, everything[first:])


def test_no_two_buffers_overlap(cache):
    binding = bind(cache, 0, SLOTS)
    for number, name in enumerate(NAMES):
        binding.array(f"past_key_values.{name}")[:] = number
    for number, name in enumerate(NAMES):
        assert (binding.array(f"past_key_values.{name}") == number).all()


def test_copy_takes_the_first_tokens_of_every_buffer(cache):
    binding = bind(cache, 0, SLOTS)
    for name in NAMES:
        binding.array(f"past_key_values.{name}")[:] = np.arange(SLOTS)[:, None, None, None]
    cache.copy(source=3, target=1, length=4)
    for name in NAMES:
        array = binding.array(f"past_key_values.{name}")
        assert (array[1, :, :4] == 3).all()
        assert (array[1, :, 4:] == 1).all()
        for slot in (0, 2, 3, 4):
            assert (array[slot] == slot).all()


def test_slot_bytes(cache):
    binding = bind(cache, 0, 1)
    size = sum(binding.array(f"past_key_values.{name}").nbytes for name in NAMES)
    assert slot_bytes(CONFIG, CAPACITY) == size
