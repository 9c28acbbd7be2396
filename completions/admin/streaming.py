"""Answers that are sent while they are made, under ASGI and WSGI."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse


def streamed(request: HttpRequest, pieces: Iterator[str], **options: Any) -> StreamingHttpResponse:
    """A response of pieces, each sent as soon as it is there.

    Under ASGI Django would read a plain iterator to its end first.
    """
    body = _off_loop(pieces) if isinstance(request, ASGIRequest) else pieces
    return StreamingHttpResponse(body, **options)


async def _off_loop(pieces: Iterator[str]) -> AsyncIterator[str]:
    """The pieces, made in the request's own thread."""
    following = sync_to_async(lambda: next(pieces, None))
    while (piece := await following()) is not None:
        yield piece
