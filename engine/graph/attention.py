"""Finding the attention of a layer in an exported graph, and putting the operator in its place.

The search is anchored on the names of the cache tensors, which all exports share, and follows the
keys from there to the softmax; it depends on no other name and on no order of nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from engine.errors import UnsupportedModel
from engine.graph.constants import scalar

_MOVES = {"Cast", "Expand", "Identity", "Reshape", "Transpose", "Unsqueeze"}
"""Operators that move keys and scores about without changing a number."""

_HEADS_LAST = (0, 2, 1, 3)
"""The permutation between (B, heads, S, head_dim) and (B, S, heads, head_dim)."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One layer's attention as the export wrote it.

    `query`, `key` and `value` of the new tokens and the resulting `context` have shape
    (B, heads, S, head_dim). `softcap` 0 is none.
    """

    layer: int
    query: ir.Value
    key: ir.Value
    value: ir.Value
    context: ir.Value
    scale: float
    softcap: float


def find_attention(graph: ir.Graph, layer: int) -> Attention:
    """Find a layer's attention; raises UnsupportedModel naming what is in the way."""
    past_key, past_value = _past(graph, layer)
    keys, values = _append(past_key), _append(past_value)
    softmax = _next(keys.outputs[0], "Softmax", layer)
    output = _next(softmax.outputs[0], "MatMul", layer)
    query, scale, softcap = _read_scores(keys, softmax, layer)
    new_key, new_value = keys.inputs[1], values.inputs[1]
    return Attention(layer, query, new_key, new_value, output.outputs[0], scale, softcap)


def replace_attention(
    graph: ir.Graph, found: Attention, lengths: Sequence[ir.Value], num_heads: int, window: int
) -> None:
    """Put GroupQueryAttention in the place of what was found.

    `lengths` are seqlens_k and total_sequence_length; `window` is how many tokens a token sees,
    itself included, or -1 for all.
    """
    past = _past(graph, found.layer)
    num_kv_heads, head_dim = past[0].shape[1], past[0].shape[3]
    new = [_join_heads(graph, each) for each in (found.query, found.key, found.value)]
    node = ir.node(
        "GroupQueryAttention",
        [*new, *past, *lengths],
        {
            "num_heads": num_heads,
            "kv_num_heads": num_kv_heads,
            "scale": found.scale,
            "softcap": found.softcap,
            "local_window_size": window,
        },
        domain="com.microsoft",
        num_outputs=3,
        name=f"attention.{found.layer}",
    )
    graph.append(node)
    context, *present = node.outputs
    _replace_context(graph, found.context, context, num_heads, head_dim)
    for kind, old, new_present in zip(("key", "value"), past, present, strict=True):
        _replace_output(graph, f"present.{found.layer}.{kind}", new_present, like=old)


def expose_lengths(operators: Sequence[ir.Node], lengths: Sequence[ir.Value]) -> None:
    """Give operators that are there already the lengths that they took from attention_mask."""
    for node in operators:
        for index, value in zip((5, 6), lengths, strict=True):
            node.replace_input_with(index, value)


def _past(graph: ir.Graph, layer: int) -> list[ir.Value]:
    """A layer's past keys and values."""
    inputs = {value.name: value for value in graph.inputs}
    return [inputs[f"past_key_values.{layer}.{kind}"] for kind in ("key", "value")]


def _append(past: ir.Value) -> ir.Node:
    """The Concat that appends new keys or values to the past ones."""
    for node in past.consumers():
        if node.op_type == "Concat" and node.inputs[0] is past:
            return node
    raise UnsupportedModel(f"{past.name} is not appended to with Concat")


def _downstream(start: ir.Value) -> list[ir.Node]:
    """The nodes that `start` flows into, nearest first, up to and with the next Softmax."""
    nodes: dict[ir.Node, None] = {}
    waiting = [start]
    while waiting:
        for node in waiting.pop(0).consumers():
            if node.op_type == "Shape" or node in nodes:
                continue
            nodes[node] = None
            if node.op_type != "Softmax":
                waiting += node.outputs
    return list(nodes)


def _next(start: ir.Value, op_type: str, layer: int) -> ir.Node:
    for node in _downstream(start):
        if node.op_type == op_type:
            return node
    raise UnsupportedModel(f"layer {layer} has no {op_type} where its attention should be")


def _read_scores(keys: ir.Node, softmax: ir.Node, layer: int) -> tuple[ir.Value, float, float]:
    """The query, scale and softcap on the way from the softmax back to the keys.

    Masks on that way are left out, because the operator masks by itself. They are added or
    selected; a second addition is a bias.
    """
    (all_keys,), head_dim = keys.outputs, int(keys.inputs[0].shape[3])
    reached = {all_keys}.union(*(node.outputs for node in _downstream(all_keys)))
    query, factor, softcap, additions = None, 1.0, 0.0, 0
    value = softmax.inputs[0]
    while value is not all_keys:
        node = value.producer()
        index = next(i for i, each in enumerate(node.inputs) if each in reached)
        if node.op_type == "Tanh":
            softcap, factor = factor, 1.0
        elif node.op_type == "MatMul":
            query = node.inputs[0]
        elif node.op_type == "Add":
            additions += 1
        elif node.op_type not in _MOVES | {"Where"}:
            factor *= _factor(node, index, head_dim, layer)
        value = node.inputs[index]
    if query is None or additions > 1:
        raise UnsupportedModel(
            f"layer {layer} adds more than a mask to its attention scores (ALiBi or relative "
            "positions), which GroupQueryAttention can't do"
        )
    query, query_factor = _unscaled(query, head_dim)
    return query, factor * query_factor * (softcap or 1.0), softcap


def _factor(node: ir.Node, index: int, head_dim: int, layer: int) -> float:
    """What a node multiplies its input `index` with."""
    if node.op_type in {"Mul", "Div"}:
        number = scalar(node.inputs[1 - index], head_dim)
        if number is not None and node.op_type == "Mul":
            return number
        if number is not None and index == 0:
            return 1 / number
    raise UnsupportedModel(f"layer {layer} has the operator {node.op_type} in its attention scores")


def _unscaled(query: ir.Value, head_dim: int) -> tuple[ir.Value, float]:
    """The query before a multiplication with a number, and that number."""
    node = query.producer()
    if node is not None and node.op_type == "Mul":
        for index, other in ((0, 1), (1, 0)):
            number = scalar(node.inputs[other], head_dim)
            if number is not None:
                return node.inputs[index], number
    return query, 1.0


def _join_heads(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """(B, heads, S, head_dim) to (B, S, heads * head_dim)."""
    return _add(graph, "Reshape", [_swap_heads(graph, value), _int64s(graph, 0, 0, -1)])


def _swap_heads(graph: ir.Graph, value: ir.Value) -> ir.Value:
    node = value.producer()
    if node.op_type == "Transpose" and tuple(node.attributes["perm"].as_ints()) == _HEADS_LAST:
        return node.inputs[0]
    return _add(graph, "Transpose", [value], perm=_HEADS_LAST)


def _replace_context(
    graph: ir.Graph, old: ir.Value, new: ir.Value, num_heads: int, head_dim: int
) -> None:
    """Let the transposed old context's readers read the new one, (B, S, heads * head_dim)."""
    transpose = _reader(old)
    while transpose.op_type in {"Cast", "Reshape"}:
        transpose = _reader(transpose.outputs[0])
    if transpose.op_type != "Transpose":
        raise UnsupportedModel(f"the attention's result goes into {transpose.op_type}")
    (swapped,) = transpose.outputs
    if (reader := _reader(swapped)).op_type == "Reshape":
        reader.outputs[0].replace_all_uses_with(new)
    else:
        shape = _int64s(graph, 0, 0, num_heads, head_dim)
        swapped.replace_all_uses_with(_add(graph, "Reshape", [new, shape]))


def _reader(value: ir.Value) -> ir.Node:
    """The one node that reads more of a value than its shape."""
    (reader,) = [node for node in value.consumers() if node.op_type != "Shape"]
    return reader


def _replace_output(graph: ir.Graph, name: str, new: ir.Value, like: ir.Value) -> None:
    """Make a value an output of the graph in the place of the one of that name."""
    (index,) = [i for i, value in enumerate(graph.outputs) if value.name == name]
    graph.outputs[index].name = f"{name}.exported"
    new.name, new.type, new.shape = name, like.type, like.shape
    graph.outputs[index] = new


def _int64s(graph: ir.Graph, *numbers: int) -> ir.Value:
    tensor = ir.tensor(numbers, ir.DataType.INT64)
    node = ir.node("Constant", [], {"value": tensor})
    graph.append(node)
    return node.outputs[0]


def _add(graph: ir.Graph, op_type: str, inputs: list[ir.Value], **attributes: object) -> ir.Value:
    node = ir.node(op_type, inputs, attributes)
    graph.append(node)
    return node.outputs[0]
