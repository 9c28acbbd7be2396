"""The nearest valid name for a wrong one."""

import difflib
import os.path
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question that names the nearest valid name, or nothing if none is near.

    Of the near ones the one that begins alike: max_completion_tokens is as like to min_tokens as
    it is to max_tokens.
    """
    near = difflib.get_close_matches(name, names, n=3)
    if not near:
        return ""
    best = max(near, key=lambda other: len(os.path.commonprefix([name, other])))  # noqa: RUF071 - characters are meant
    return f" Did you mean {best}?"
