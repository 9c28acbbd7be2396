"""Where the model runs. All that differs between the CPU and CUDA is in this module.

The rest of the engine holds device memory as `Buffer` and moves it through `Device`.
"""

import ctypes
import logging
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray  # noqa: TC002 - beside NumPy itself

from engine.config import Provider
from engine.errors import EngineError, UnsupportedModel

logger = logging.getLogger(__name__)

KvDtype = Literal["float32", "float16", "bfloat16"]
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_ONNX_TYPES = {"float32": 1, "float16": 10, "bfloat16": 16}
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory on a device: rows of `row_bytes` each, the first at address `pointer`.

    `owner` keeps the memory alive. On the CPU it is the array itself.
    """

    pointer: int
    shape: tuple[int, ...]
    row_bytes: int
    onnx_type: int
    owner: Any


class Device(ABC):
    """One execution provider."""

    name: Literal["cpu", "cuda"]
    providers: Sequence[str | tuple[str, dict[str, Any]]]

    @abstractmethod
    def default_cache_bytes(self) -> int:
        """How much memory keys and values may take unless the settings say otherwise."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: KvDtype) -> Buffer:
        """Uninitialized memory of this shape, whose first axis is the rows."""

    @abstractmethod
    def copy_row(self, buffer: Buffer, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions (third axis) of one row onto another."""

    @abstractmethod
    def check_kv_dtype(self, dtype: KvDtype) -> None:
        """Refuse a model whose attention has no kernel here."""

    def session(self, graph: Path, num_threads: int | None) -> ort.InferenceSession:
        """Load a graph, on this provider and on no other."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = num_threads or os.cpu_count() or 1
        options.enable_mem_pattern = False  # shapes change with every step
        session = ort.InferenceSession(graph, options, providers=list(self.providers))
        first = self.providers[0]
        wanted = first if isinstance(first, str) else first[0]
        if session.get_providers()[0] != wanted:
            raise EngineError(f"{wanted} did not load; ONNX Runtime would fall back silently")
        return session


class CpuDevice(Device):
    """The CPU provider: memory is committed by the kernel when it is first written."""

    name = "cpu"
    providers = ("CPUExecutionProvider",)

    def default_cache_bytes(self) -> int:
        """Half of the machine's memory; only what is used is committed."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2

    def allocate(self, shape: tuple[int, ...], dtype: KvDtype) -> Buffer:
        """Anonymous memory without huge pages: a slot's first tokens must not zero megabytes."""
        item = ITEM_BYTES[dtype]
        memory = mmap.mmap(-1, int(np.prod(shape)) * item, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        array = np.frombuffer(memory, f"u{item}").reshape(shape)
        return Buffer(array.ctypes.data, shape, array.strides[0], _ONNX_TYPES[dtype], array)

    def copy_row(self, buffer: Buffer, source: int, target: int, length: int) -> None:
        """Copy between NumPy views, which leaves the rest of the row uncommitted."""
        array: NDArray[Any] = buffer.owner
        array[target, :, :length] = array[source, :, :length]

    def check_kv_dtype(self, dtype: KvDtype) -> None:
        """GroupQueryAttention has kernels for fp32 and fp16 on the CPU."""
        if dtype == "bfloat16":
            raise UnsupportedModel("this model is bfloat16, which the CPU provider can't run")


class CudaDevice(Device):
    """The CUDA provider: memory is taken at once, and copied on the device."""

    name = "cuda"
    providers = (
        ("CUDAExecutionProvider", {"device_id": 0, "arena_extend_strategy": "kSameAsRequested"}),
        "CPUExecutionProvider",
    )

    def __init__(self) -> None:
        self._copier: ort.InferenceSession | None = None

    def default_cache_bytes(self) -> int:
        """Eight gigabytes: ONNX Runtime can't be asked how much is free."""
        return 8 * _GIB

    def allocate(self, shape: tuple[int, ...], dtype: KvDtype) -> Buffer:
        """Memory from the CUDA provider's arena."""
        onnx_type = _ONNX_TYPES[dtype]
        value = ort.OrtValue.ortvalue_from_shape_and_type(shape, onnx_type, "cuda", 0)
        row_bytes = int(np.prod(shape[1:])) * ITEM_BYTES[dtype]
        return Buffer(value.data_ptr(), shape, row_bytes, onnx_type, value)

    def copy_row(self, buffer: Buffer, source: int, target: int, length: int) -> None:
        """Run a graph of one Identity from row to row: the whole row, without the host."""
        del length
        if self._copier is None:
            options = ort.SessionOptions()
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            self._copier = ort.InferenceSession(
                identity_graph(buffer.onnx_type), options, providers=list(self.providers)
            )
        copy_by_graph(self._copier, "cuda", buffer, source, target)

    def check_kv_dtype(self, dtype: KvDtype) -> None:
        """GroupQueryAttention has kernels for fp16 and bf16 on CUDA."""
        if dtype == "float32":
            raise UnsupportedModel(
                "this model is float32, for which CUDA has no attention kernel; "
                "prepare it with --precision fp16"
            )


def identity_graph(onnx_type: int) -> bytes:
    """A serialized graph that copies a flat tensor."""
    from onnx import helper  # noqa: PLC0415 - only CUDA needs it, and it is slow to import

    flat = [helper.make_tensor_value_info(name, onnx_type, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "copy", *[[f] for f in flat]
    )
    opset = helper.make_opsetid("", 19)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    return bytes(model.SerializeToString())


def copy_by_graph(
    copier: ort.InferenceSession, device: str, buffer: Buffer, source: int, target: int
) -> None:
    """Copy one row of a buffer onto another with a session of `identity_graph`."""
    shape = (int(np.prod(buffer.shape[1:])),)
    binding = copier.io_binding()
    start, step = buffer.pointer, buffer.row_bytes
    binding.bind_input("x", device, 0, buffer.onnx_type, shape, start + source * step)
    binding.bind_output("y", device, 0, buffer.onnx_type, shape, start + target * step)
    copier.run_with_iobinding(binding)


def choose_device(provider: Provider) -> Device:
    """The device for a setting: "auto" takes CUDA where it loads and says why where it doesn't.

    Raises EngineError where "cuda" is demanded and can't be had.
    """
    if provider == "cpu":
        return CpuDevice()
    fault = cuda_fault()
    if fault is None:
        return CudaDevice()
    if provider == "cuda":
        raise EngineError(f"PROVIDER is 'cuda', but {fault}")
    logger.info("running on the CPU: %s", fault)
    return CpuDevice()


def cuda_fault() -> str | None:
    """Why CUDA can't be used here, or None."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1)"
    ort.preload_dlls()
    try:
        probe = ort.InferenceSession(identity_graph(1), providers=["CUDAExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - ONNX Runtime raises bare classes of its own
        return f"ONNX Runtime's CUDA provider failed: {error}"
    if "CUDAExecutionProvider" not in probe.get_providers():
        return "ONNX Runtime's CUDA provider did not load (CUDA or cuDNN missing?)"
    return None
