"""Reading numbers out of a graph, also those that an exporter left as a computation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

_MOST_NUMBERS = 8
"""Larger constants are weights."""

_FOLDED: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Cast": np.asarray,
    "ConstantOfShape": np.zeros,  # exporters write torch.full as this plus the value
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


class _NotConstant(Exception):
    pass


def scalar(value: ir.Value, last_dim: int) -> float | None:
    """The one number that `value` always holds, or None if it isn't such a value.

    Exporters compute the attention's scale from a query's shape, of which only the last
    dimension, `last_dim`, is known.
    """
    try:
        folded = _fold(value, last_dim)
    except _NotConstant:
        return None
    return float(folded.reshape(())) if folded.size == 1 and not np.isnan(folded).any() else None


def _fold(value: ir.Value, last_dim: int) -> NDArray[Any]:
    node, tensor = value.producer(), ir.convenience.get_const_tensor(value)
    if tensor is not None and tensor.size <= _MOST_NUMBERS:
        return np.asarray(tensor.numpy())
    if node is not None and node.op_type == "Shape":
        return np.array([np.nan, np.nan, np.nan, last_dim])
    if node is None or node.op_type not in _FOLDED:
        raise _NotConstant
    return np.asarray(_FOLDED[node.op_type](*(_fold(each, last_dim) for each in node.inputs)))
