"""The Channels way to `/v1/completions`."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable
from channels.consumer import get_handler_name
from channels.exceptions import StopConsumer
from channels.generic.http import AsyncHttpConsumer
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from completions.exchange import EventStreamResponse, respond


class CompletionConsumer(AsyncHttpConsumer):  # type: ignore[misc]
    """Answers in a task of its own, so that a disconnect is seen at any time and cancels it.

    It needs no channel layer and passes no middleware; `respond` checks host and size itself.
    """

    channel_layer_alias = None

    def __init__(self) -> None:
        super().__init__()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._answer: asyncio.Task[None] | None = None

    async def __call__(
        self, scope: dict[str, Any], receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Serve until the client is gone; then nothing of the answer goes on."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._answer:
                self._answer.cancel()
                await asyncio.wait([self._answer])

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Call the message's handler, without AsyncConsumer's trip to the database thread."""
        await getattr(self, get_handler_name(message))(message)

    async def http_request(self, message: dict[str, Any]) -> None:
        """Take a piece of the body; the first one starts the answer."""
        if self._answer is None:
            self._answer = asyncio.create_task(self._respond())
        if not self._answer.done():
            self._pieces.put_nowait(message.get("body", b""))
            if not message.get("more_body"):
                self._pieces.put_nowait(None)

    async def http_disconnect(self, message: dict[str, Any]) -> None:  # noqa: ARG002
        """End; servers say this after the answer too."""
        raise StopConsumer

    async def _body(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def _respond(self) -> None:
        request = ASGIRequest(self.scope, io.BytesIO())
        response = await respond(request, self._body())
        if isinstance(response, EventStreamResponse):
            await self._send_events(response)
            return
        assert isinstance(response, HttpResponse)
        response["Content-Length"] = str(len(response.content))
        await self.send_response(response.status_code, response.content, headers=_headers(response))

    async def _send_events(self, response: EventStreamResponse) -> None:
        try:
            await self.send_headers(status=response.status_code, headers=_headers(response))
            async for events in response.events:
                await self.send_body(events, more_body=True)
            await self.send_body(b"")
        finally:
            response.events.close()


def _headers(response: HttpResponseBase) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("ascii"), value.encode()) for name, value in response.items()]
