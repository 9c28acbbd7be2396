"""From a source to a prepared model, step by step; a finished step is kept for the next try."""

import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
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
from engine.quantize import quantize, weight_bits
from engine.source import Source, fetch, parse_source
from engine.tokenizer import SPECIAL_TOKENS_FILE, TOKENIZER_FILE, Tokenizer
from engine.verify import verify

Progress = Callable[[str], AbstractContextManager[object]]
"""Called with a step's name; entered when the step begins and left when it ends."""

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_BITS: dict[Precision, int] = {"int8": 8, "int4": 4}
_DTYPES: dict[Precision, tuple[str, ...]] = {
    "fp32": ("float32",),
    "fp16": ("float16",),
    "int8": ("float32", "float16"),
    "int4": ("float32", "float16"),
}
_RECIPE = 1
"""Changes when a step comes to make something else of the same source."""

_COPIES = 3
"""The exported, rewritten and quantized graphs lie side by side for a while."""


def prepare_model(
    source: str | Path, name: str, models_dir: Path, precision: Precision, progress: Progress
) -> ModelFolder:
    """Make `models_dir/name` out of a source, unless it was made of that source already.

    An interrupted run is taken up after its last finished step; a failed one leaves an older
    model of that name as it was, and nothing else. Raises ModelError, and UnsupportedModel for
    what the engine can't run.
    """
    if not _NAME.fullmatch(name):
        raise ModelError(f"{name!r} is no model name: letters, digits and ._- with at most one /")
    origin, target = parse_source(source), models_dir / name
    recipe = f"{origin.fingerprint()}-{precision}-{_RECIPE}"
    if _is_prepared(target, recipe):
        return ModelFolder(target)
    steps = _Steps(models_dir / ".work" / recipe, progress)
    try:
        _swap(_prepare(origin, name, precision, steps), target)
    except Exception as error:
        steps.discard()
        if isinstance(error, OSError):
            raise ModelError(f"{name} can't be prepared: {error}") from error
        raise
    steps.discard()
    return ModelFolder(target)


class _Steps:
    """Runs each step into a folder of its own, which gets its name only when it is complete."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder = folder
        self.progress = progress

    def run(self, name: str, step: Callable[[Path], object]) -> Path:
        """The folder that a step filled, in this run or an earlier one."""
        finished, half = self.folder / name, self.folder / f"{name}.unfinished"
        with self.progress(name):
            if not finished.exists():
                shutil.rmtree(half, ignore_errors=True)
                half.mkdir(parents=True)
                try:
                    step(half)
                    half.rename(finished)
                finally:
                    shutil.rmtree(half, ignore_errors=True)
        return finished

    def discard(self) -> None:
        """Remove all that was made."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # another model is being prepared there
            self.folder.parent.rmdir()


def _prepare(origin: Source, name: str, precision: Precision, steps: _Steps) -> Path:
    """Run all steps; returns the complete folder."""
    with steps.progress("load"):
        source = fetch(origin)
        _check_disk_space(source, steps.folder)
    exported = steps.run("export", lambda folder: export(source, folder, precision))
    graph = source.graph or exported / GRAPH_FILE
    rewritten = steps.run("rewrite", lambda folder: _rewrite(graph, exported, folder, precision))
    full = rewritten / GRAPH_FILE
    if precision in _BITS and weight_bits(ir.load(full)) is None:
        bits = _BITS[precision]
        rewritten = steps.run("quantize", lambda folder: quantize(full, folder, bits))

    def assemble(folder: Path) -> None:
        _link_files(rewritten, folder)
        for file in (TOKENIZER_FILE, SPECIAL_TOKENS_FILE):
            shutil.copy(exported / file, folder / file)
        config = _describe(
            exported,
            folder,
            precision,
            name=name,
            source=origin.name,
            license_id=source.license,
            recipe=steps.folder.name,
        )
        write_config(folder, config)
        verify(ModelFolder(folder), graph)

    return steps.run("verify", assemble)


def _is_prepared(target: Path, recipe: str) -> bool:
    return (target / CONFIG_FILE).is_file() and ModelFolder(target).config.recipe == recipe


def _check_disk_space(source: Source, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = sum(file.stat().st_size for file in folder.rglob("*.data"))
    needed = _COPIES * 4 * source.count_parameters() - made
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"preparing this model takes about {needed / 1e9:.1f} GB of disk space; "
            f"there are {free / 1e9:.1f} GB"
        )


def _rewrite(graph: Path, exported: Path, folder: Path, precision: Precision) -> None:
    model = ir.load(graph)
    _check_precision(model, precision)
    architecture = read_architecture(exported)
    rewrite(model, architecture.num_heads, architecture.windows)
    ir.save(model, folder / GRAPH_FILE, external_data=f"{GRAPH_FILE}.data")


def _check_precision(model: ir.Model, precision: Precision) -> None:
    """Refuse a ready graph of another precision: weights are quantized, never converted."""
    dtype, bits = read_cache(model).dtype, weight_bits(model)
    if dtype not in _DTYPES[precision]:
        raise UnsupportedModel(f"this graph is {dtype} and can't become {precision}")
    if bits not in {None, _BITS.get(precision)}:
        raise UnsupportedModel(
            f"this graph's weights have {bits} bits already and can't become {precision}"
        )


def _describe(
    exported: Path,
    folder: Path,
    precision: Precision,
    *,
    name: str,
    source: str,
    license_id: str | None,
    recipe: str,
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
        vocab_size=min(tokenizer.vocab_size, architecture.vocab_size),
        max_model_len=architecture.max_model_len,
        eos_token_ids=eos_token_ids,
        source=source,
        created=int(time.time()),
        license=license_id,
        fim=find_fim_template(tokenizer.added_tokens),
        recipe=recipe,
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
