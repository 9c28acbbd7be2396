"""Comparing a prepared model with the export that it was made of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.model_folder import ModelFolder, Precision
from engine.tokenizer import Tokenizer

Logits = NDArray[np.float32]
Feeds = Mapping[str, NDArray[Any]]

TEXT = """The first lighthouse keeper on the island wrote down every storm, ship and star for 31 \
years. def area(width, height): return width * height  # «Größe» in m²
"""
TOLERANCES: dict[Precision, float] = {"fp32": 1e-3, "fp16": 5e-2, "int8": 0.4, "int4": 2.5}
"""Mean difference of logprobs over each position's ten most likely tokens."""

_NUM_TOKENS = 48
_NUM_DECODED = 8
_MOST_LIKELY = 10


def verify(folder: ModelFolder, exported: Path) -> float:
    """Compare the logprobs of a short text; returns their mean difference.

    The export computes it at once, the prepared model in two chunks and some single tokens.
    Raises ModelError above the precision's tolerance.
    """
    ids = np.array(Tokenizer(folder.path).encode(TEXT)[:_NUM_TOKENS], np.int64)
    expected = _logprobs(run_exported(exported, ids))
    actual = _logprobs(run_prepared(folder, ids)[:, : expected.shape[1]])
    likely = np.argsort(-expected, axis=1)[:, :_MOST_LIKELY]
    difference = np.abs(actual - expected)
    mean = float(np.take_along_axis(difference, likely, axis=1).mean())
    tolerance = TOLERANCES[folder.config.precision]
    if not mean <= tolerance:  # also where it is not a number
        raise ModelError(
            f"the prepared model's logprobs differ by {mean:.4f} from the exported ones, "
            f"more than {folder.config.precision} explains ({tolerance})"
        )
    return mean


def run_exported(graph: Path, ids: NDArray[np.int64]) -> Logits:
    """Logits (S, V) of a text in a graph that has not been rewritten."""
    session = _session(graph)
    size = len(ids)
    feeds = {
        "input_ids": ids[None],
        "attention_mask": np.ones((1, size), np.int64),
        "position_ids": np.arange(size)[None],
    }
    (logits,) = session.run(["logits"], _only_inputs(session, feeds) | _past(session, 0))
    return np.asarray(logits[0], np.float32)


def run_prepared(folder: ModelFolder, ids: NDArray[np.int64]) -> Logits:
    """Logits (S, V) of a text in a prepared model: two chunks, then single tokens."""
    session = _session(folder.graph_path)
    past = _past(session, len(ids))
    outputs = [output.name for output in session.get_outputs()]
    decoded = max(1, len(ids) - _NUM_DECODED)
    starts = [0, decoded // 2, *range(decoded, len(ids))]
    logits = []
    for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
        size = end - start
        feeds = {
            "input_ids": ids[None, start:end],
            "position_ids": np.arange(start, end)[None],
            "seqlens_k": np.array([end - 1], np.int32),
            "total_sequence_length": np.array(end, np.int32),
            "logits_index": np.arange(size),
        }
        results = session.run(outputs, _only_inputs(session, feeds) | past)
        named = dict(zip(outputs, results, strict=True))
        past = {name: named[name.replace("past_key_values", "present")] for name in past}
        logits.append(named["logits"])
    return np.concatenate(logits)


def _session(graph: Path) -> ort.InferenceSession:
    return ort.InferenceSession(graph, providers=["CPUExecutionProvider"])


def _only_inputs(session: ort.InferenceSession, feeds: Feeds) -> dict[str, NDArray[Any]]:
    names = {each.name for each in session.get_inputs()}
    return {name: array for name, array in feeds.items() if name in names}


def _past(session: ort.InferenceSession, length: int) -> dict[str, NDArray[Any]]:
    """Empty keys and values, (1, num_kv_heads, length, head_dim)."""
    past = {}
    for each in session.get_inputs():
        if each.name.startswith("past_key_values."):
            dtype = np.float16 if each.type == "tensor(float16)" else np.float32
            past[each.name] = np.zeros((1, each.shape[1], length, each.shape[3]), dtype)
    return past


def _logprobs(logits: Logits) -> Logits:
    shifted = logits - logits.max(axis=1, keepdims=True)
    logprobs: Logits = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logprobs
