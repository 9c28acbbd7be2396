"""A tiny random llama with a byte-level tokenizer, as a prepared model, in a fraction of a second.

Its graph is written down here in the form that engine.graph promises, so that tests of the engine
need neither torch nor an export. The logits have columns beyond the vocabulary, as padded exports
do, and they are the largest of all.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from engine.model_folder import GRAPH_FILE, ModelConfig, ModelFolder, write_config

CONFIG = ModelConfig(
    name="tiny",
    architecture="llama",
    precision="fp32",
    num_layers=2,
    num_kv_heads=2,
    head_dim=16,
    kv_dtype="float32",
    vocab_size=300,
    max_model_len=256,
    eos_token_ids=(1,),
    source="tests",
    created=1_700_000_000,
)
NUM_HEADS, HIDDEN, INTERMEDIATE, PADDED_VOCAB = 4, 64, 96, 304
TEXT = "the other cat sat there in the rain while three ships sailed along the eastern coast " * 3


def build_tiny_model(path: Path, **config_overrides: Any) -> ModelFolder:
    """Fill `path` with the model; overrides are fields of its ModelConfig."""
    path.mkdir(parents=True, exist_ok=True)
    config = replace(CONFIG, **config_overrides)
    write_config(path, config)
    write_tokenizer(path)
    ir.save(_Llama(config).build(), path / GRAPH_FILE)
    return ModelFolder(path)


def write_tokenizer(path: Path) -> None:
    """300 tokens: <s>, </s>, the 256 bytes and 42 merges; <s> is added to a prompt."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG.vocab_size,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    roles = {"bos_token": "<s>", "eos_token": "</s>"}
    (path / "special_tokens_map.json").write_text(json.dumps(roles))


class _Llama:
    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.random = np.random.default_rng(0)
        self.nodes: list[ir.Node] = []
        self.weights: list[ir.Value] = []

    def build(self) -> ir.Model:
        config = self.config
        ids = _input("input_ids", ir.DataType.INT64, "batch", "sequence")
        positions = _input("position_ids", ir.DataType.INT64, "batch", "sequence")
        lengths = _input("seqlens_k", ir.DataType.INT32, "batch")
        total = _input("total_sequence_length", ir.DataType.INT32)
        index = _input("logits_index", ir.DataType.INT64, "num_logits")
        embedding = self.random.normal(size=(config.vocab_size, HIDDEN))
        hidden = self.add("Gather", self.constant(embedding), ids)
        pasts: list[ir.Value] = []
        presents: list[ir.Value] = []
        for layer in range(config.num_layers):
            past = [self.cache(f"past_key_values.{layer}.{kind}") for kind in ("key", "value")]
            context, *present = self.attention(self.norm(hidden), positions, past, lengths, total)
            for value, kind in zip(present, ("key", "value"), strict=True):
                value.name = f"present.{layer}.{kind}"
                value.type, value.shape = past[0].type, past[0].shape
            hidden = self.add("Add", hidden, self.project(context, HIDDEN, HIDDEN))
            hidden = self.add("Add", hidden, self.mlp(self.norm(hidden)))
            pasts += past
            presents += present
        rows = self.add("Gather", self.add("Flatten", self.norm(hidden), axis=-1), index)
        head = self.random.normal(size=(HIDDEN, PADDED_VOCAB), scale=0.3)
        head[:, config.vocab_size :] *= 10
        logits = self.add("MatMul", rows, self.constant(head))
        logits.name = "logits"
        logits.type = ir.TensorType(ir.DataType.FLOAT)
        logits.shape = ir.Shape(["num_logits", PADDED_VOCAB])
        graph = ir.Graph(
            [ids, positions, lengths, total, index, *pasts],
            [logits, *presents],
            nodes=self.nodes,
            initializers=self.weights,
            opset_imports={"": 18, "com.microsoft": 1},
            name="tiny",
        )
        return ir.Model(graph, ir_version=8)

    def attention(
        self,
        hidden: ir.Value,
        positions: ir.Value,
        past: list[ir.Value],
        lengths: ir.Value,
        total: ir.Value,
    ) -> list[ir.Value]:
        config = self.config
        kv_size = config.num_kv_heads * config.head_dim
        query = self.rotate(self.project(hidden, HIDDEN, HIDDEN), NUM_HEADS, positions)
        key = self.rotate(self.project(hidden, HIDDEN, kv_size), config.num_kv_heads, positions)
        value = self.project(hidden, HIDDEN, kv_size)
        node = ir.node(
            "GroupQueryAttention",
            [query, key, value, *past, lengths, total],
            {"num_heads": NUM_HEADS, "kv_num_heads": config.num_kv_heads},
            domain="com.microsoft",
            num_outputs=3,
        )
        self.nodes.append(node)
        return list(node.outputs)

    def rotate(self, value: ir.Value, num_heads: int, positions: ir.Value) -> ir.Value:
        width = self.config.head_dim
        frequencies = 1e4 ** -(np.arange(0, width, 2) / width)
        angles = np.outer(np.arange(self.config.max_model_len), frequencies)
        cos, sin = self.constant(np.cos(angles)), self.constant(np.sin(angles))
        node = ir.node(
            "RotaryEmbedding",
            [value, positions, cos, sin],
            {"num_heads": num_heads, "rotary_embedding_dim": width},
            domain="com.microsoft",
        )
        self.nodes.append(node)
        return node.outputs[0]

    def mlp(self, hidden: ir.Value) -> ir.Value:
        gate = self.add("Sigmoid", self.project(hidden, HIDDEN, INTERMEDIATE))
        inner = self.add("Mul", gate, self.project(hidden, HIDDEN, INTERMEDIATE))
        return self.project(inner, INTERMEDIATE, HIDDEN)

    def norm(self, hidden: ir.Value) -> ir.Value:
        weight = self.constant(np.ones(HIDDEN))
        return self.add("SimplifiedLayerNormalization", hidden, weight, axis=-1, epsilon=1e-6)

    def project(self, value: ir.Value, fan_in: int, width: int) -> ir.Value:
        weight = self.random.normal(size=(fan_in, width), scale=fan_in**-0.5)
        return self.add("MatMul", value, self.constant(weight))

    def constant(self, array: np.ndarray) -> ir.Value:
        tensor = ir.tensor(array.astype(np.float32))
        value = ir.Value(name=f"weight.{len(self.weights)}", const_value=tensor)
        self.weights.append(value)
        return value

    def cache(self, name: str) -> ir.Value:
        heads, width = self.config.num_kv_heads, self.config.head_dim
        return _input(name, ir.DataType.FLOAT, "batch", heads, "capacity", width)

    def add(self, op_type: str, *inputs: ir.Value, **attributes: Any) -> ir.Value:
        node = ir.node(op_type, inputs, attributes)
        self.nodes.append(node)
        return node.outputs[0]


def _input(name: str, dtype: ir.DataType, *shape: str | int) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))
