"""The cache that a graph's inputs describe."""

from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from engine.errors import UnsupportedModel

KvDtype = Literal["float32", "float16", "bfloat16"]

_DTYPES: dict[ir.DataType, KvDtype] = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
}


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Keys and values of each layer: (rows, num_kv_heads, tokens, head_dim) of type `dtype`."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype: KvDtype


def read_cache(model: ir.Model) -> CacheShape:
    """Read the cache's shape; raises UnsupportedModel where the layers' shapes differ."""
    past = [each for each in model.graph.inputs if each.name.startswith("past_key_values.")]
    if not past:
        raise UnsupportedModel("the graph takes no past keys and values (past_key_values.N.key)")
    if any(each.name == "use_cache_branch" for each in model.graph.inputs):
        raise UnsupportedModel("the graph is a merged decoder; export it anew without merging")
    facts = {(each.shape[1], each.shape[3], each.dtype) for each in past}
    if len(facts) > 1:
        raise UnsupportedModel("the layers differ in their heads, which one cache can't hold")
    ((num_kv_heads, head_dim, dtype),) = facts
    if not (isinstance(num_kv_heads, int) and isinstance(head_dim, int)):
        raise UnsupportedModel("the graph does not say how many heads its cache has")
    return CacheShape(len(past) // 2, num_kv_heads, head_dim, _DTYPES[dtype])
