"""NVIDIA NIM's OpenAI-compatible ``/v1/completions`` as a Django app."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from completions.api import acomplete, astream, complete

__version__ = "0.1.0"

__all__ = ["acomplete", "astream", "complete"]


def __getattr__(name: str) -> Any:
    """Import the API when it is used: its models need Django's apps to be loaded."""
    if name in __all__:
        from completions import api  # noqa: PLC0415

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
