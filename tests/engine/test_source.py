"""What a text given as a source is taken for, and what is fetched from the hub."""

from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.source import fetch, parse_source


@pytest.fixture
def files(tmp_path):
    def make(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["config.json", "model.safetensors"], "checkpoint"),
        (["config.json", "pytorch_model-00001-of-00002.bin"], "checkpoint"),
        (["config.json", "model.onnx"], "onnx"),
        (["genai_config.json", "model.onnx", "model.onnx.data"], "onnx"),
        (["config.json", "onnx/model.onnx", "onnx/model_q4.onnx"], "onnx"),
        (["config.json", "model.safetensors", "onnx/model.onnx"], "checkpoint"),
    ],
)
def test_folders(files, names, kind):
    source = parse_source(str(files(*names)))
    assert source.kind == kind
    assert (source.graph is not None) == (kind == "onnx")


def test_gguf_file(files):
    assert parse_source(files("a.gguf") / "a.gguf").kind == "gguf"


def test_other_file(files):
    with pytest.raises(ModelError, match="no GGUF file"):
        parse_source(files("a.bin") / "a.bin")


@pytest.mark.parametrize("text", ["./a", "/a", "~/a", "a/b/c", Path("a/b")])
def test_a_path_that_does_not_exist_is_no_hub_id(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="does not exist"):
        parse_source(text)


def test_fingerprint_follows_the_files(files):
    folder = files("config.json", "model.safetensors")
    before = parse_source(folder).fingerprint()
    assert parse_source(folder).fingerprint() == before
    (folder / "model.safetensors").write_text("other weights")
    assert parse_source(folder).fingerprint() != before


def test_license_of_a_model_card(files):
    folder = files("config.json", "model.safetensors")
    assert parse_source(folder).license is None
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model\n")
    assert parse_source(folder).license == "apache-2.0"


class Hub:
    """A hub with one repository, whose files come only if a pattern asks for them."""

    def __init__(self, folder, names):
        self.folder, self.names = folder, names
        self.fetched = set()

    def __call__(self, repo_id, allow_patterns):
        from fnmatch import fnmatch

        for name in self.names:
            if any(fnmatch(name, pattern) for pattern in allow_patterns):
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(name)
                self.fetched.add(name)
        return str(self.folder)


@pytest.mark.parametrize(
    ("names", "fetched", "kind"),
    [
        (
            [
                "config.json",
                "tokenizer.json",
                "model.safetensors",
                "onnx/model.onnx",
                "tf_model.h5",
            ],
            {"config.json", "tokenizer.json", "model.safetensors"},
            "checkpoint",
        ),
        (
            ["config.json", "onnx/model.onnx", "onnx/model.onnx_data", "onnx/model_q4.onnx"],
            {"config.json", "onnx/model.onnx", "onnx/model.onnx_data"},
            "onnx",
        ),
    ],
)
def test_fetch_takes_only_what_is_needed(tmp_path, monkeypatch, names, fetched, kind):
    hub = Hub(tmp_path, names)
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub)
    source = fetch(parse_source("someone/model"))
    assert (source.kind, hub.fetched) == (kind, fetched)


def test_unreachable_hub(monkeypatch):
    def fail(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(ModelError, match="no route to host"):
        fetch(parse_source("someone/model"))
