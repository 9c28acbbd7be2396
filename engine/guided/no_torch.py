"""Imports of libraries that would take torch along."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast


@contextmanager
def without_torch() -> Iterator[None]:
    """Make `import torch` fail: for libraries that use it where it is and do without where not."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = cast("Any", None)
    try:
        yield
    finally:
        del sys.modules["torch"]
