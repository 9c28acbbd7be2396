"""A prepared model on disk: the rewritten graph, its tokenizer and what the engine must know."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from engine.errors import ModelError

Precision = Literal["fp32", "fp16", "int8", "int4"]

CONFIG_FILE = "model.json"
GRAPH_FILE = "model.onnx"


@dataclass(frozen=True, slots=True)
class FimTemplate:
    """How a fill-in-the-middle prompt is built: prefix + text + suffix + text + middle.

    With `suffix_first` the hole's suffix precedes its prefix.
    """

    prefix: str
    suffix: str
    middle: str
    suffix_first: bool = False


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The facts of a prepared model, kept as `model.json` in its folder.

    Cache tensors have shape (slots, num_kv_heads, capacity, head_dim) and type `kv_dtype`.
    `vocab_size` counts real tokens, without the columns that an export padded. `created` is in
    seconds since the epoch. `recipe` changes with the source's files and the way of preparing them.
    """

    name: str
    architecture: str
    precision: Precision
    num_layers: int
    num_kv_heads: int
    head_dim: int
    kv_dtype: Literal["float32", "float16", "bfloat16"]
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    source: str
    created: int
    license: str | None = None
    fim: FimTemplate | None = None
    recipe: str | None = None


class ModelFolder:
    """A folder that `prepare_model` wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = _read_config(path / CONFIG_FILE)

    @property
    def graph_path(self) -> Path:
        """The rewritten ONNX graph."""
        return self.path / GRAPH_FILE


def write_config(folder: Path, config: ModelConfig) -> None:
    """Write `model.json`."""
    (folder / CONFIG_FILE).write_text(json.dumps(asdict(config), indent=2) + "\n")


def _read_config(path: Path) -> ModelConfig:
    try:
        facts: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise ModelError(
            f"{path.parent} holds no prepared model; make one with: manage.py prepare_model"
        ) from None
    facts["eos_token_ids"] = tuple(facts["eos_token_ids"])
    if facts["fim"]:
        facts["fim"] = FimTemplate(**facts["fim"])
    known = {each.name for each in fields(ModelConfig)}  # an older version wrote others too
    return ModelConfig(**{name: fact for name, fact in facts.items() if name in known})
