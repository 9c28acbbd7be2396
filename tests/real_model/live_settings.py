"""The example site on a prepared model, with a database in the test's folder."""

import os
from pathlib import Path

from project.settings import *  # noqa: F403

DATABASES = {
    "default": {
        **DATABASES["default"],  # noqa: F405
        "NAME": Path(os.environ.get("LIVE_DIR", ".")) / "live.sqlite3",
    }
}
COMPLETIONS = {"MODEL": os.environ.get("LIVE_MODEL")}
