"""Memory on a device and the graph that copies it; CUDA's way of copying runs on the CPU here."""

import ctypes
import logging

import numpy as np
import onnxruntime as ort
import pytest

from engine import device as module
from engine.device import (
    ITEM_BYTES,
    CpuDevice,
    CudaDevice,
    choose_device,
    copy_by_graph,
    identity_graph,
)
from engine.errors import EngineError, UnsupportedModel

SHAPE = (4, 2, 5, 3)
EVERY_DTYPE = pytest.mark.parametrize("dtype", ITEM_BYTES)


def filled(dtype):
    """A buffer on the CPU whose raw items are all different."""
    buffer = CpuDevice().allocate(SHAPE, dtype)
    buffer.owner[:] = np.arange(buffer.owner.size).reshape(SHAPE)
    return buffer


@EVERY_DTYPE
def test_allocate(dtype):
    buffer = CpuDevice().allocate(SHAPE, dtype)
    assert buffer.shape == buffer.owner.shape == SHAPE
    assert buffer.row_bytes == np.prod(SHAPE[1:]) * ITEM_BYTES[dtype]
    assert not buffer.owner.any()
    second_row = ctypes.string_at(buffer.pointer + buffer.row_bytes, buffer.row_bytes)
    assert second_row == bytes(buffer.row_bytes)
    buffer.owner[1] = 7
    assert ctypes.string_at(buffer.pointer + buffer.row_bytes, 1) == b"\7"


@EVERY_DTYPE
def test_copy_row(dtype):
    buffer, before = filled(dtype), filled(dtype).owner
    CpuDevice().copy_row(buffer, source=2, target=0, length=3)
    np.testing.assert_array_equal(buffer.owner[0, :, :3], before[2, :, :3])
    np.testing.assert_array_equal(buffer.owner[0, :, 3:], before[0, :, 3:])
    np.testing.assert_array_equal(buffer.owner[1:], before[1:])


@EVERY_DTYPE
@pytest.mark.parametrize("source, target", [(0, 3), (3, 0), (1, 2)])
def test_copy_by_graph(dtype, source, target):
    buffer, before = filled(dtype), filled(dtype).owner
    graph = identity_graph(buffer.onnx_type)
    copier = ort.InferenceSession(graph, providers=["CPUExecutionProvider"])
    copy_by_graph(copier, "cpu", buffer, source, target)
    before[target] = before[source]
    np.testing.assert_array_equal(buffer.owner, before)


@pytest.mark.parametrize(
    "device, fit, unfit",
    [
        (CpuDevice(), ["float32", "float16"], ["bfloat16"]),
        (CudaDevice(), ["float16", "bfloat16"], ["float32"]),
    ],
)
def test_models_without_an_attention_kernel_are_refused(device, fit, unfit):
    for dtype in fit:
        device.check_kv_dtype(dtype)
    for dtype in unfit:
        with pytest.raises(UnsupportedModel, match=dtype):
            device.check_kv_dtype(dtype)


def test_session_refuses_a_silent_fallback(monkeypatch):
    class FallsBack:
        def __init__(self, *args, **kwargs):
            pass

        def get_providers(self):
            return ["CPUExecutionProvider"]

    monkeypatch.setattr(module.ort, "InferenceSession", FallsBack)
    CpuDevice().session("graph", 1)
    with pytest.raises(EngineError, match="CUDAExecutionProvider did not load"):
        CudaDevice().session("graph", 1)


@pytest.mark.parametrize("fault", [None, "there is no driver"])
def test_choose_device(monkeypatch, caplog, fault):
    monkeypatch.setattr(module, "cuda_fault", lambda: fault)
    assert choose_device("cpu").name == "cpu"
    with caplog.at_level(logging.INFO):
        assert choose_device("auto").name == ("cpu" if fault else "cuda")
    assert (fault or "") in caplog.text
    if fault:
        with pytest.raises(EngineError, match=fault):
            choose_device("cuda")
    else:
        assert choose_device("cuda").name == "cuda"
