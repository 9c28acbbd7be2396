"""From a source to a prepared model, step by step; a finished step is kept for the next try."""

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir

from engine.architecture import read_architecture
from engine.errors import ModelError, UnsupportedModel
from engine.export import export, read_eos_token_ids
from engine.fim import find_fim_template
from engine.graph import read_cache, rewrite
from engine.model_folder import (
    CONFIG_FILE,
    GRAPH_FILE,
    ModelConfig,
    ModelFolder,
    Precision,
    write_config,
)
from engine.quantize import quantize
from engine.source import Source, fetch, parse_source
from engine.tokenizer import SPECIAL_TOKENS_FILE, TOKENIZER_FILE, Tokenizer
from engine.verify import verify

Progress = Callable[[str, int, int], None]
"""Called with a step's name, how much of it is done, and of how much."""

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_BITS: dict[Precision, int] = {"int8": 8, "int4": 4}
_COPIES = 3
"""The exported, rewritten and quantized graphs lie side by side for a while."""


def prepare_model(
    source: str | Path, name: str, models_dir: Path, precision: Precision, progress: Progress
) -> ModelFolder:
    """Make `models_dir/name` out of a source, unless it was made of that source already.

    An interrupted run is taken up after its last finished step; a failed one leaves an older
    model of that name as it was. Raises ModelError, and UnsupportedModel for what the engine
    can't run.
    """
    if not _NAME.fullmatch(name):
        raise ModelError(f"{name!r} is no model name: letters, digits and ._- with at most one /")
    origin, target = parse_source(source), models_dir / name
    if _is_prepared(target, origin, precision):
        return ModelFolder(target)
    steps = _Steps(models_dir / ".work" / f"{origin.fingerprint()}-{precision}", progress)
    progress("load", 0, 1)
    local = fetch(origin)
    _check_disk_space(local, models_dir)
    progress("load", 1, 1)
    exported = steps.run("export", lambda folder: export(local, folder, precision))
    graph = local.graph or exported / GRAPH_FILE
    rewritten = steps.run("rewrite", lambda folder: _rewrite(graph, exported, folder, precision))
    if precision in _BITS:
        bits, full = _BITS[precision], rewritten / GRAPH_FILE
        rewritten = steps.run("quantize", lambda folder: quantize(full, folder, bits))

    def assemble(folder: Path) -> None:
        _link_files(rewritten, folder)
        for file in (TOKENIZER_FILE, SPECIAL_TOKENS_FILE):
            shutil.copy(exported / file, folder / file)
        config = _describe(
            exported, folder, precision, name=name, source=origin.name, license_id=local.license
        )
        write_config(folder, config)
        verify(ModelFolder(folder), graph)

    _swap(steps.run("verify", assemble), target)
    shutil.rmtree(steps.folder)
    return ModelFolder(target)


class _Steps:
    """Runs each step into a folder of its own, which gets its name only when it is complete."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder = folder
        self._progress = progress

    def run(self, name: str, step: Callable[[Path], object]) -> Path:
        """The folder that a step filled, in this run or an earlier one."""
        self._progress(name, 0, 1)
        finished = self.folder / name
        if not finished.exists():
            half = self.folder / f"{name}.unfinished"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            step(half)
            half.rename(finished)
        self._progress(name, 1, 1)
        return finished


def _is_prepared(target: Path, origin: Source, precision: Precision) -> bool:
    if not (target / CONFIG_FILE).is_file():
        return False
    config = ModelFolder(target).config
    return (config.source, config.precision) == (origin.name, precision)


def _check_disk_space(source: Source, models_dir: Path) -> None:
    models_dir.mkdir(parents=True, exist_ok=True)
    needed = _COPIES * 4 * source.count_parameters()
    free = shutil.disk_usage(models_dir).free
    if free < needed:
        raise ModelError(
            f"preparing this model takes about {needed / 1e9:.1f} GB of disk space; "
            f"{models_dir} has {free / 1e9:.1f} GB"
        )


def _rewrite(graph: Path, exported: Path, folder: Path, precision: Precision) -> None:
    model = ir.load(graph)
    cache, architecture = read_cache(model), read_architecture(exported)
    if (precision == "fp16" and cache.dtype != "float16") or (
        precision == "fp32" and cache.dtype != "float32"
    ):
        raise UnsupportedModel(f"this graph is {cache.dtype} and can't become {precision}")
    rewrite(model, architecture.num_heads, architecture.windows)
    ir.save(model, folder / GRAPH_FILE, external_data=f"{GRAPH_FILE}.data")


def _describe(
    exported: Path,
    folder: Path,
    precision: Precision,
    *,
    name: str,
    source: str,
    license_id: str | None,
) -> ModelConfig:
    model = ir.load(folder / GRAPH_FILE)
    cache, architecture = read_cache(model), read_architecture(exported)
    eos_token_ids = read_eos_token_ids(exported)
    tokenizer = Tokenizer(folder, eos_token_ids)
    return ModelConfig(
        name=name,
        architecture=architecture.model_type,
        precision=precision,
        num_layers=cache.num_layers,
        num_kv_heads=cache.num_kv_heads,
        head_dim=cache.head_dim,
        kv_dtype=cache.dtype,
        has_position_ids=any(each.name == "position_ids" for each in model.graph.inputs),
        vocab_size=min(tokenizer.vocab_size, architecture.vocab_size),
        max_model_len=architecture.max_model_len,
        eos_token_ids=eos_token_ids,
        source=source,
        created=int(time.time()),
        license=license_id,
        fim=find_fim_template(tokenizer.added_tokens),
    )


def _link_files(source: Path, folder: Path) -> None:
    """Hard links: a step's files are never changed once it is finished."""
    for file in source.iterdir():
        os.link(file, folder / file.name)


def _swap(new: Path, target: Path) -> None:
    """Put a complete folder in the place of an older one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
