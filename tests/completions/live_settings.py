"""The example site on a fake engine, for tests that start real servers."""

import os
import tempfile
from pathlib import Path

from project.settings import *  # noqa: F403

VAR = Path(os.environ.get("LIVE_DIR") or tempfile.gettempdir())

DATABASES = {
    "default": {
        **DATABASES["default"],  # noqa: F405
        "NAME": VAR / "live.sqlite3",
    }
}
COMPLETIONS = {
    "ENGINE": "tests.completions.fakes.SlowEngine",
    "MODEL": "fake",
    "ALIASES": ["org/alias"],
    "MODELS_DIR": VAR,
}
