"""Fixtures that tests of both packages need."""

import pytest

from engine.model_folder import ModelFolder
from tests.engine.tiny import build_tiny_model

pytest_plugins = ["tests.services"]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """A tiny random llama, prepared; tests must not change its folder."""
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
