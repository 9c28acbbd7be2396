"""What the service says of itself: version, model cards, license, manifest (spec section 9)."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from completions import __version__

if TYPE_CHECKING:
    from engine.async_engine import AsyncEngine

API_VERSION = "1.0.0"

Json = dict[str, Any]


def version() -> Json:
    """Versions of this package and of the HTTP contract."""
    return {"release": __version__, "api": API_VERSION}


def model_card(engine: "AsyncEngine", name: str) -> Json:
    """OpenAI's model object for one of the served names."""
    model = engine.model
    return {
        "id": name,
        "object": "model",
        "created": model.created,
        "owned_by": "system",
        "root": model.name,
        "parent": None,
        "max_model_len": engine.max_model_len,
    }


def license_info(engine: "AsyncEngine") -> Json:
    """The license of the model: its identifier, and its text if the model's folder has it."""
    name = engine.model.license or "unknown"
    path = engine.config.model / "LICENSE"
    content = path.read_text(errors="replace") if path.is_file() else f"SPDX: {name}\n"
    data = content.encode()
    return {
        "name": name,
        "path": path.name,
        "sha": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "url": f"https://spdx.org/licenses/{name}.html",
        "type": "text/plain",
        "content": content,
    }


def service_metadata(engine: "AsyncEngine") -> Json:
    """NIM's description of what runs here."""
    model = engine.model
    return {
        "version": __version__,
        "assetInfo": [model.source],
        "licenseInfo": license_info(engine),
        "modelInfo": [{"modelUrl": model.source, "shortName": model.name}],
    }


def manifest(engine: "AsyncEngine") -> Json:
    """The model and its files as YAML text."""
    model = engine.model
    facts = {
        "model": model.name,
        "source": model.source,
        "architecture": model.architecture,
        "precision": model.precision,
        "max_model_len": engine.max_model_len,
        "files": _files(engine.config.model),
    }
    return {"manifest_file": yaml.safe_dump(facts, sort_keys=False)}


def _files(folder: Path) -> list[Json]:
    found = sorted(path for path in folder.glob("*") if path.is_file())
    return [{"name": path.name, "size": path.stat().st_size} for path in found]
