"""The models that are measured: the default one, and in fp32 both Optimum's export and what the
engine makes of that very export. The latter are made once and kept in var/benchmarks.
"""

from contextlib import nullcontext
from pathlib import Path

VAR = Path(__file__).resolve().parents[2] / "var"
MODELS = VAR / "models"
FOLDER = VAR / "benchmarks"
EXPORTED = FOLDER / "exported"


def default_model() -> Path:
    """The model that `make setup` prepared."""
    return MODELS / (MODELS / "default").read_text().strip()


def fp32_model() -> Path:
    """The prepared fp32 model; its export lies in EXPORTED."""
    if not (FOLDER / "fp32").exists():
        _make_fp32()
    return FOLDER / "fp32"


def _make_fp32() -> None:
    from engine.export import export
    from engine.gguf_file import default_gguf
    from engine.prepare import prepare_model
    from engine.source import parse_source

    if not EXPORTED.exists():
        half = EXPORTED.with_suffix(".unfinished")
        half.mkdir(parents=True, exist_ok=True)
        export(parse_source(default_gguf()), half, "fp32")
        half.rename(EXPORTED)
    prepare_model(EXPORTED, "fp32", FOLDER, "fp32", nullcontext)
