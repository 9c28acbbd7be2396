"""Request bodies: their media type, their size, and JSON as the standard has it."""

import json
import math
from collections.abc import AsyncIterable
from typing import Any, NoReturn

from completions.conf import settings
from completions.exceptions import BadRequest, BodyTooLarge, UnsupportedMediaType

JSON_MEDIA_TYPE = "application/json"


def check_media_type(content_type: str) -> None:
    """Raise 415 unless the header says JSON; its parameters and case don't matter."""
    if content_type.partition(";")[0].strip().lower() != JSON_MEDIA_TYPE:
        raise UnsupportedMediaType(content_type)


async def read_body(pieces: AsyncIterable[bytes]) -> bytes:
    """Join a body as it comes in; 413 as soon as it is over MAX_BODY_BYTES."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        check_size(len(body))
    return bytes(body)


def check_size(size: int) -> None:
    """Raise 413 for a body of more than MAX_BODY_BYTES."""
    if size > settings.MAX_BODY_BYTES:
        raise BodyTooLarge(f"The body is larger than {settings.MAX_BODY_BYTES} bytes.")


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; integers stay exact, whatever their size.

    Raises 400 for anything else, NaN, infinite numbers and excessive nesting included.
    """
    try:
        value = json.loads(
            body.decode(), parse_float=_finite_float, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise BadRequest(f"The body is not JSON: {error}.") from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The body is not acceptable JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest("The body must be a JSON object.")
    return value


def _finite_float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise ValueError(f"the number {literal[:40]} is out of range.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number.")
