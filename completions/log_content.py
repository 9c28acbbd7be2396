"""What of a request's texts is kept in the log: LOG_CONTENT, LOG_REDACTOR, and the cut."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from completions.conf import settings
from completions.models import MAX_MODEL, MAX_USER, LoggedChoice, RequestLog

logger = logging.getLogger(__name__)

TRUNCATED_CHARACTERS = 200
NOT_REDACTED = "[the redactor failed]"


def apply_policy(row: RequestLog, choices: Sequence[LoggedChoice]) -> None:
    """Change a row and its choices to what may be stored, and what databases take."""
    row.model = _storable(row.model)[:MAX_MODEL]
    row.user = _storable(row.user)[:MAX_USER]
    row.error = _storable(row.error)
    row.prompt = _kept(row.prompt)
    row.parameters = _kept_json(row.parameters)
    for choice in choices:
        choice.text = _kept(choice.text)
        choice.stop_reason = _kept_json(choice.stop_reason)
        choice.logprobs = _kept_logprobs(choice.logprobs)


def _kept(text: str) -> str:
    if settings.LOG_CONTENT == "none":
        return ""
    return _storable(_redacted(text))


def _kept_json(value: Any) -> Any:
    if isinstance(value, str):
        return _kept(value)
    if isinstance(value, list | tuple):
        return [_kept_json(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _kept_json(item) for key, item in value.items()}
    return value


def _kept_logprobs(value: Any) -> Any:
    """Tokens are text: without all of it, or with a part redacted, they are not kept."""
    if settings.LOG_CONTENT != "full" or settings.LOG_REDACTOR:
        return None
    return _kept_json(value)


def _redacted(text: str) -> str:
    redactor: Callable[[str], str] | None = settings.LOG_REDACTOR
    if redactor is None or not text:
        return text
    try:
        return redactor(text)
    except Exception:
        logger.exception("the redactor failed")
        return NOT_REDACTED


def _storable(text: str) -> str:
    """A text cut to size, with what databases refuse escaped: NUL and halves of surrogate pairs."""
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    is_cut = settings.LOG_CONTENT == "truncated"
    limit = min(settings.LOG_MAX_CHARACTERS, TRUNCATED_CHARACTERS if is_cut else 2**31)
    return text if len(text) <= limit else f"{text[:limit]}…"
