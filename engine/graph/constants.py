"""Reading numbers out of a graph, also those that an exporter left as a computation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

_FOLDED: dict[str, Callable[..., Any]] = {
    "Cast": np.asarray,
    "Div": np.divide,
    "Gather": lambda data, index: data[index],
    "Identity": np.asarray,
    "Mul": np.multiply,
    "Pow": np.power,
    "Reciprocal": lambda x: 1 / x,
    "Slice": lambda data, start, end, *_: data[int(start[0]) : int(end[0])],
    "Sqrt": np.sqrt,
    "Squeeze": lambda data, *_: np.squeeze(data),
    "Unsqueeze": lambda data, *_: data,
}


def scalar(value: ir.Value, last_dim: int) -> float | None:
    """The one number that `value` always holds, or None if it isn't such a value.

    Exporters compute the attention's scale from a query's shape, of which only the last
    dimension, `last_dim`, is known.
    """
    folded = _fold(value, last_dim)
    if folded is None or np.size(folded) != 1:
        return None
    number = float(np.reshape(folded, ()))
    return None if np.isnan(number) else number


def _fold(value: ir.Value, last_dim: int) -> Any:
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is not None:
        return tensor.numpy() if tensor.size <= 8 else None  # noqa: PLR2004 - no weights here
    node = value.producer()
    if node is None:
        return None
    if node.op_type == "Shape":
        return np.array([np.nan, np.nan, np.nan, last_dim])
    if node.op_type not in _FOLDED:
        return None
    inputs = [_fold(each, last_dim) for each in node.inputs]
    if any(each is None for each in inputs):
        return None
    return _FOLDED[node.op_type](*inputs)
