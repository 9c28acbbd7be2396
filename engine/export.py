"""From a source to an ONNX decoder that takes past keys and values, by way of Optimum.

Only preparation calls this: it imports torch and transformers, which serving never does.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from engine.architecture import CONFIG_FILES, describe
from engine.errors import ModelError, UnsupportedModel
from engine.gguf_file import GgufFile
from engine.model_folder import Precision
from engine.quiet import quiet
from engine.source import Source

TASK = "text-generation-with-past"
GENERATION_FILE = "generation_config.json"


@quiet()
def export(source: Source, folder: Path, precision: Precision) -> None:
    """Write a source's graph, configuration and tokenizer into `folder`.

    A source that already is a graph gives its configuration and tokenizer only. fp16 models are
    exported in fp16, so that their norms and positions stay in fp32 as the model's code says.
    """
    if source.kind == "gguf":
        _export_gguf(GgufFile(source.path), folder, precision)
    elif source.kind == "onnx":
        _copy_configuration(source.path, folder)
        _write_tokenizer(source.path, folder)
    else:
        _write_tokenizer(source.path, folder)
        _export_model(_load(source.path, precision), folder)


def _export_gguf(file: GgufFile, folder: Path, precision: Precision) -> None:
    file.write_tokenizer(folder)
    model = _load(file.path.parent, precision, gguf_file=file.path.name)
    model.generation_config.eos_token_id = list(file.eos_token_ids)
    _export_model(model, folder)


def _load(folder: Path, precision: Precision, **options: Any) -> Any:
    """Load a checkpoint with eager attention, the only one that knows each model's softcap."""
    import torch  # noqa: PLC0415
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415

    dtype = torch.float16 if precision == "fp16" else torch.float32
    try:
        config = AutoConfig.from_pretrained(folder, **options)
        describe(config)
        model = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=dtype, attn_implementation="eager", **options
        )
    except (OSError, ValueError, KeyError) as error:
        raise UnsupportedModel(f"transformers can't load {folder.name}: {error}") from error
    return model.eval()


def _export_model(model: Any, folder: Path) -> None:
    from optimum.exporters.onnx import onnx_export_from_model  # noqa: PLC0415

    try:
        onnx_export_from_model(model, folder, task=TASK, do_validation=False)
    except (ValueError, KeyError, NotImplementedError) as error:
        kind = model.config.model_type
        raise UnsupportedModel(f"Optimum can't export {kind} models: {error}") from error


def _copy_configuration(source: Path, folder: Path) -> None:
    if not any((source / name).is_file() for name in CONFIG_FILES):
        raise ModelError(f"{source} has none of {', '.join(CONFIG_FILES)}")
    for name in (*CONFIG_FILES, GENERATION_FILE):
        if (source / name).is_file():
            shutil.copy(source / name, folder / name)


def _write_tokenizer(source: Path, folder: Path) -> None:
    """Let transformers convert whatever tokenizer there is, and apply its configuration."""
    from transformers import AutoTokenizer  # noqa: PLC0415

    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except Exception as error:  # whatever comes of a missing file, AttributeError among them
        raise UnsupportedModel(f"{source.name} has no usable tokenizer: {error}") from error
    if not tokenizer.is_fast:
        raise UnsupportedModel(f"{source.name} has no tokenizer.json and none can be made of it")
    tokenizer.save_pretrained(folder)


def read_eos_token_ids(folder: Path) -> tuple[int, ...]:
    """Every token that ends a completion, by the generation configuration or else the model's."""
    for name in (GENERATION_FILE, *CONFIG_FILES):
        facts = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        ids = facts.get("model", facts).get("eos_token_id")
        if ids is not None:
            return tuple(ids) if isinstance(ids, list) else (ids,)
    return ()
