"""The site's secret key, for starts without one in the environment."""

import contextlib
import os
from pathlib import Path

from django.core.management.utils import get_random_secret_key


def read_secret_key(path: Path) -> str:
    """The key in a file that only its owner can read; it is made at the first start.

    The file appears with its content, so that two processes starting at once have one key.
    """
    if not path.exists():
        own = path.with_name(f"{path.name}.{os.getpid()}")
        own.touch(0o600)
        own.write_text(get_random_secret_key())
        with contextlib.suppress(FileExistsError):
            os.link(own, path)
        own.unlink()
    return path.read_text()
