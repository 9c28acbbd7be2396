"""What a model's own configuration says about its decoder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError, UnsupportedModel

CONFIG_FILES = ("config.json", "genai_config.json")
"""What transformers and onnxruntime-genai call a model's configuration."""

_ALIBI = {"bloom", "mpt"}
"""Model types whose attention adds a bias that grows with the distance."""

_FULL, _SLIDING = {"full_attention", "global"}, {"sliding_attention", "local"}
"""How configurations call layers that see all tokens, and only the last ones."""

_ROPE_THAT_CHANGES_WITH_LENGTH = {"dynamic", "longrope"}
"""An export keeps the frequencies of short texts, which hold up to the original context."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The decoder's shape.

    `windows` is, per layer, how many tokens a token sees, itself included; -1 is all.
    """

    model_type: str
    num_heads: int
    vocab_size: int
    max_model_len: int
    windows: tuple[int, ...]


def read_architecture(folder: Path) -> Architecture:
    """Read a folder's configuration; raises UnsupportedModel for what the engine can't run."""
    from transformers import AutoConfig  # noqa: PLC0415 - serving never imports transformers

    own, genai = (folder / name for name in CONFIG_FILES)
    if genai.is_file() and not own.is_file():
        return _describe_genai(json.loads(genai.read_text())["model"])
    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder} has no readable config.json: {error}") from error
    return describe(config)


def describe(config: Any) -> Architecture:
    """Take the facts from a transformers configuration."""
    if config.is_encoder_decoder:
        raise UnsupportedModel(f"{config.model_type} is an encoder-decoder, not a decoder")
    text = config.get_text_config()
    if text.model_type in _ALIBI or getattr(text, "alibi", False):
        raise UnsupportedModel(
            f"{text.model_type} uses ALiBi attention biases, which GroupQueryAttention can't do"
        )
    return Architecture(
        model_type=text.model_type,
        num_heads=text.num_attention_heads,
        vocab_size=text.vocab_size,
        max_model_len=_max_model_len(text),
        windows=_windows(text),
    )


def _describe_genai(facts: dict[str, Any]) -> Architecture:
    """Take the facts from an onnxruntime-genai configuration, whose graph knows its windows."""
    decoder = facts["decoder"]
    return Architecture(
        model_type=facts["type"],
        num_heads=decoder["num_attention_heads"],
        vocab_size=facts["vocab_size"],
        max_model_len=facts["context_length"],
        windows=(-1,) * decoder["num_hidden_layers"],
    )


def _max_model_len(config: Any) -> int:
    scaling = getattr(config, "rope_scaling", None) or {}
    if scaling.get("rope_type", scaling.get("type")) in _ROPE_THAT_CHANGES_WITH_LENGTH:
        original = getattr(config, "original_max_position_embeddings", None)
        original = original or scaling.get("original_max_position_embeddings")
        return int(original or config.max_position_embeddings)
    return int(config.max_position_embeddings)


def _windows(config: Any) -> tuple[int, ...]:
    window = getattr(config, "sliding_window", None) or getattr(config, "window_size", None)
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    if kinds is None:
        kinds = ["sliding_attention"] * config.num_hidden_layers
    if unknown := set(kinds) - _FULL - _SLIDING:
        raise UnsupportedModel(f"{config.model_type} has layers of {sorted(unknown)}")
    if not window or not getattr(config, "use_sliding_window", True):
        window = -1
    return tuple(int(window) if kind in _SLIDING else -1 for kind in kinds)
