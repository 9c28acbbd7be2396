"""The graph pass: an exported decoder becomes one that appends to its cache in place.

The exported graph concatenates past and new keys and masks the scores; the rewritten one leaves
both to com.microsoft.GroupQueryAttention (ONNX Runtime's contrib operator documentation), which
writes into the cache where `past` and `present` are bound to one address. Its contract, for B rows
of S new tokens of which R logits are wanted:

==========================  =======  ==============================================
input_ids                   int64    (B, S)
position_ids                int64    (B, S), absent where the model can't use it
seqlens_k                   int32    (B,), each row's total length - 1
total_sequence_length       int32    (), the largest total length, on the CPU
logits_index                int64    (R,), flat positions in (B * S)
past_key_values.N.key       float    (B, num_kv_heads, capacity, head_dim); also .value
logits                      float32  (R, vocabulary with the export's padding)
present.N.key               float    as past_key_values.N.key; also .value
==========================  =======  ==============================================
"""

from engine.graph.cache import CacheShape, read_cache
from engine.graph.rewrite import rewrite

__all__ = ["CacheShape", "read_cache", "rewrite"]
