"""What a model can be prepared from."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import ModelError
from engine.gguf_file import GgufFile

SourceKind = Literal["hub", "checkpoint", "gguf", "onnx"]

_CHECKPOINT_WEIGHT_BYTES, _GRAPH_WEIGHT_BYTES = 2, 4

_CHECKPOINT_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "README.md"]
_LICENSE = re.compile(r"^license: *(\S+)", re.MULTILINE)
_GRAPHS = ("model.onnx", "onnx/model.onnx")
"""Where Optimum and onnxruntime-genai, and onnx-community put the decoder's graph."""

_ONNX_FILES = [f"{graph}*" for graph in _GRAPHS]


@dataclass(frozen=True, slots=True)
class Source:
    """A Hugging Face hub id, a checkpoint folder, a GGUF file, or a folder with an ONNX decoder."""

    kind: SourceKind
    location: str

    @property
    def path(self) -> Path:
        """Where the source lies, if it is not on the hub."""
        return Path(self.location)

    @property
    def name(self) -> str:
        """What may be shown of the source: a hub id, or the last part of a path."""
        return self.location if self.kind == "hub" else self.path.name

    @property
    def graph(self) -> Path | None:
        """The decoder's graph, where there already is one."""
        return _find_graph(self.path) if self.kind == "onnx" else None

    @property
    def license(self) -> str | None:
        """The license's SPDX identifier, where the source names it."""
        if self.kind == "gguf":
            return GgufFile(self.path).license
        card = self.path / "README.md"
        found = _LICENSE.search(card.read_text()) if card.is_file() else None
        return found[1] if found else None

    def count_parameters(self) -> int:
        """About how many weights a local source holds, by the size of its files."""
        if self.kind == "gguf":
            return GgufFile(self.path).count_parameters()
        if self.graph:
            files = [*self.graph.parent.glob(f"{self.graph.name}*")]
            return sum(file.stat().st_size for file in files) // _GRAPH_WEIGHT_BYTES
        files = [*self.path.glob("*.safetensors"), *self.path.glob("*.bin")]
        return sum(file.stat().st_size for file in files) // _CHECKPOINT_WEIGHT_BYTES

    def fingerprint(self) -> str:
        """Sixteen hex digits that change with the source's location or its files."""
        parts = [self.kind, self.location]
        if self.kind != "hub":
            files = [self.path] if self.path.is_file() else sorted(self.path.rglob("*"))
            parts += [f"{file}:{file.stat().st_size}:{file.stat().st_mtime_ns}" for file in files]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def parse_source(text: str | Path) -> Source:
    """Tell the kinds of source apart; what exists as a path is never a hub id."""
    path = Path(text).expanduser()
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"{path} is no GGUF file")
        return Source("gguf", str(path.resolve()))
    if path.is_dir():
        kind: SourceKind = "checkpoint" if _has_weights(path) or not _find_graph(path) else "onnx"
        return Source(kind, str(path.resolve()))
    if isinstance(text, Path) or text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise ModelError(f"{text} does not exist")
    return Source("hub", text)


def fetch(source: Source) -> Source:
    """Download a source that is on the hub; an interrupted download is resumed.

    Raises ModelError where the hub can't be reached or has no such model.
    """
    if source.kind != "hub":
        return source
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only preparation needs it

    try:
        folder = Path(snapshot_download(source.location, allow_patterns=_CHECKPOINT_FILES))
        if not _has_weights(folder):
            snapshot_download(source.location, allow_patterns=_CHECKPOINT_FILES + _ONNX_FILES)
    except (OSError, ValueError) as error:
        raise ModelError(f"{source.location} can't be had from the hub: {error}") from error
    return parse_source(folder)


def _has_weights(folder: Path) -> bool:
    return any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))


def _find_graph(folder: Path) -> Path | None:
    for name in _GRAPHS:
        if (folder / name).is_file():
            return folder / name
    return None
