"""Weights of matrix products in blocks of 8 or 4 bits, by ONNX Runtime's own tool."""

from pathlib import Path

import numpy as np
import onnx_ir as ir

from engine.model_folder import GRAPH_FILE
from engine.quiet import quiet

BLOCK_SIZE = 32
"""Weights that share a scale and a zero point; smaller blocks are more exact and slower."""

_INT8_ACTIVATIONS = 4
"""`accuracy_level` of MatMulNBits; without it the CPU's kernel is 13 to 20 times slower."""


@quiet()
def quantize(graph: Path, folder: Path, bits: int, block_size: int = BLOCK_SIZE) -> None:
    """Write into `folder` a graph whose MatMul weights, the LM head's too, have `bits` bits."""
    from onnxruntime.quantization.matmul_nbits_quantizer import (  # noqa: PLC0415 - it is slow
        MatMulNBitsQuantizer,
    )

    model = ir.external_data.load_to_model(ir.load(graph))
    _untie_weights(model.graph)
    quantizer = MatMulNBitsQuantizer(
        ir.to_proto(model), bits=bits, block_size=block_size, accuracy_level=_INT8_ACTIVATIONS
    )
    quantizer.process()
    quantized = ir.from_proto(quantizer.model.model)
    ir.save(quantized, folder / GRAPH_FILE, external_data=f"{GRAPH_FILE}.data")


def weight_bits(model: ir.Model) -> int | None:
    """The fewest bits of a graph's weights, or None where they are floats."""
    quantized = [node for node in model.graph if node.op_type == "MatMulNBits"]
    return min((node.attributes.get_int("bits", 4) for node in quantized), default=None)


def _untie_weights(graph: ir.Graph) -> None:
    """Give an LM head that transposes the embedding a weight of its own, to be quantized."""
    for node in [node for node in graph if node.op_type == "Transpose"]:
        (weight,) = node.inputs
        if weight.is_initializer():
            order = node.attributes.get_ints("perm")
            transposed = np.transpose(weight.const_value.numpy(), order)
            own = ir.Value(name=f"{weight.name}.transposed", const_value=ir.tensor(transposed))
            graph.register_initializer(own)
            node.outputs[0].replace_all_uses_with(own)
            graph.remove(node, safe=True)
