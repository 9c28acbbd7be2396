"""What is checked and tidied in regular expressions before a backend sees them."""

import re

from engine.guided.backend import ConstraintError

# An escape, a whole character class, or one or more quantifiers in a row.
_TOKEN = re.compile(
    r"""\\.                                         # an escaped character
    | \[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]          # a character class
    | \(\?[#<:=!P\w-]*                              # the head of a group, whose ? is no quantifier
    | (?P<quantifiers>(?:[*+?]|\{\d*,?\d*\})+)""",
    re.VERBOSE | re.DOTALL,
)
_ONE_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})\??")


def check_quantifiers(pattern: str, place: str) -> None:
    """Refuse quantifiers of quantifiers, which dialects read differently.

    `foo**` is an error in one, a possessive loop in another and plain repetition in a third.
    Raises ConstraintError, whose message begins with the place.
    """
    for token in _TOKEN.finditer(pattern):
        quantifiers = token["quantifiers"]
        if quantifiers and not _ONE_QUANTIFIER.fullmatch(quantifiers):
            raise ConstraintError(
                f"{place}: multiple repeat {quantifiers!r} at character {token.start()}"
            )


def strip_anchors(pattern: str) -> str:
    """Drop ^ and $ from the ends: the whole text must match anyhow."""
    pattern = pattern.lstrip("^")
    while pattern.endswith("$") and not _is_escaped(pattern, len(pattern) - 1):
        pattern = pattern[:-1]
    return pattern


def _is_escaped(text: str, index: int) -> bool:
    backslashes = len(text[:index]) - len(text[:index].rstrip("\\"))
    return backslashes % 2 == 1
