"""The graph pass: lengths in, attention replaced, positions in, only the wanted logits out."""

import logging
from collections.abc import Sequence

import onnx_ir as ir
from onnx_ir.passes import common

from engine.errors import UnsupportedModel
from engine.graph.attention import expose_lengths, find_attention, replace_attention

logging.getLogger("onnx_ir").setLevel(logging.WARNING)  # its passes tell what they removed


def rewrite(model: ir.Model, num_heads: int, windows: Sequence[int]) -> None:
    """Rewrite a decoder with past in place: an Optimum export, or one that holds the operator.

    `num_heads` are the query's; `windows` is, per layer, how many tokens a token sees, itself
    included (-1 is all). Raises UnsupportedModel where the graph holds what the engine can't run.
    """
    graph = model.graph
    lengths = [
        _add_input(graph, "seqlens_k", ir.DataType.INT32, ["batch"]),
        _add_input(graph, "total_sequence_length", ir.DataType.INT32, []),
    ]
    operators = [node for node in graph if node.op_type == "GroupQueryAttention"]
    if operators:
        expose_lengths(operators, lengths)
    else:
        for layer, window in enumerate(windows):
            found = find_attention(graph, layer)
            replace_attention(graph, found, lengths, num_heads, window)
        model.opset_imports["com.microsoft"] = 1
    _name_dimensions(graph)
    _keep_all_logits(graph)
    _drop_unused(model)
    if not operators and not _has_input(graph, "position_ids"):
        _use_position_ids(graph)
    _keep_wanted_logits(graph)
    _drop_unused(model)


def _add_input(graph: ir.Graph, name: str, dtype: ir.DataType, shape: list[str]) -> ir.Value:
    value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))
    graph.inputs.append(value)
    return value


def _has_input(graph: ir.Graph, name: str) -> bool:
    return any(value.name == name for value in graph.inputs)


def _name_dimensions(graph: ir.Graph) -> None:
    """Say what the cache's dimensions are now: its length is a capacity."""
    for value in [*graph.inputs, *graph.outputs]:
        if value.name.startswith(("past_key_values.", "present.")):
            _, heads, _, head_dim = value.shape
            value.shape = ir.Shape(["batch", heads, "capacity", head_dim])


def _drop_unused(model: ir.Model) -> None:
    """Remove dead nodes and the inputs that fed only them (attention_mask among them)."""
    model.graph.sort()
    common.RemoveUnusedNodesPass()(model)
    for value in [value for value in model.graph.inputs if not value.uses()]:
        model.graph.inputs.remove(value)


def _use_position_ids(graph: ir.Graph) -> None:
    """Feed positions to a graph that computed them from the length of its cache.

    That computation is a Range of shape (S,), made (1, S): the same positions for each row.
    """
    ranges = [node for node in graph if node.op_type == "Range"]
    if not ranges:
        return
    positions = _add_input(graph, "position_ids", ir.DataType.INT64, ["batch", "sequence"])
    for node in ranges:
        for reader in node.outputs[0].consumers():
            if reader.op_type != "Unsqueeze":
                raise UnsupportedModel(f"the positions go into {reader.op_type}")
            reader.outputs[0].replace_all_uses_with(positions)


def _keep_all_logits(graph: ir.Graph) -> None:
    """Fix an input that onnx-community's exports have: 0 means the logits of all positions."""
    for value in graph.inputs:
        if value.name == "num_logits_to_keep":
            zero = ir.node("Constant", [], {"value": ir.tensor(0, ir.DataType.INT64)})
            graph.append(zero)
            value.replace_all_uses_with(zero.outputs[0])


_AFTER_PROJECTION = {"Add", "Cast", "Div", "Mul", "Tanh"}
_PROJECTIONS = {"Gemm", "MatMul", "MatMulNBits"}


def _keep_wanted_logits(graph: ir.Graph) -> None:
    """Gather the wanted rows before the LM head, whose work and output then shrink to them."""
    (logits,) = [value for value in graph.outputs if value.name == "logits"]
    head = _language_model_head(logits)
    index = _add_input(graph, "logits_index", ir.DataType.INT64, ["num_logits"])
    rows = ir.node("Flatten", [head.inputs[0]], {"axis": -1})
    wanted = ir.node("Gather", [rows.outputs[0], index], {"axis": 0})
    graph.extend([rows, wanted])
    head.replace_input_with(0, wanted.outputs[0])
    logits.shape = ir.Shape(["num_logits", logits.shape[-1]])
    if logits.dtype != ir.DataType.FLOAT:
        _cast_output(graph, logits)


def _language_model_head(logits: ir.Value) -> ir.Node:
    node = logits.producer()
    while node.op_type not in _PROJECTIONS:
        if node.op_type not in _AFTER_PROJECTION:
            raise UnsupportedModel(f"the logits come out of the operator {node.op_type}")
        (node,) = [each.producer() for each in node.inputs if _is_computed(each)]
    return node


def _is_computed(value: ir.Value) -> bool:
    return value.producer() is not None and ir.convenience.get_const_tensor(value) is None


def _cast_output(graph: ir.Graph, value: ir.Value) -> None:
    index = graph.outputs.index(value)
    cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT})
    graph.append(cast)
    output = cast.outputs[0]
    output.name, value.name = value.name, f"{value.name}.{value.dtype.name.lower()}"
    output.type, output.shape = ir.TensorType(ir.DataType.FLOAT), value.shape
    graph.outputs[index] = output
