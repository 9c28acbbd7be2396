"""One HTTP exchange on `/v1/completions`, whatever carries it.

The consumer and the view both hand a request and the pieces of its body to `respond` and send
what it returns. The checks stand in the order of spec section 1; the first that fails answers,
and nothing is sent before all have passed.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from completions.conf import settings
from completions.exceptions import MethodNotAllowed, as_api_error
from completions.generation import OutputStream, off_loop, prepare
from completions.parsers import check_media_type, check_size, parse_object, read_body
from completions.protocol import DONE, PING, event
from completions.record import Record

INLINE_BYTES = 8192
"""A larger body is validated and tokenized in a thread: it would hold up the event loop."""

STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def respond(request: HttpRequest, pieces: AsyncIterable[bytes]) -> HttpResponseBase:
    """Answer with a completion, a stream of events, or an error; and see that it is logged."""
    record = Record(request.META.get("REMOTE_ADDR") or "")
    try:
        response = await _respond(request, pieces, record)
    except asyncio.CancelledError:
        record.abandon()
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
        api_error = as_api_error(error, record.request_id)
        record.refuse(api_error)
        await record.stored()
        response = api_error.response()
    response["X-Request-Id"] = record.request_id
    return response


async def _respond(
    request: HttpRequest, pieces: AsyncIterable[bytes], record: Record
) -> HttpResponseBase:
    _check_head(request)
    body = await read_body(pieces)
    generation = await off_loop(
        len(body) > INLINE_BYTES, lambda: prepare(parse_object(body), record)
    )
    if generation.completion.stream:
        return EventStreamResponse(EventStream(await generation.stream()))
    return JsonResponse(await generation.complete())


def _check_head(request: HttpRequest) -> None:
    """What can be checked before the body: host, method, media type and announced size."""
    request.get_host()
    if request.method != "POST":
        raise MethodNotAllowed(request.method or "", "POST")
    check_media_type(request.headers.get("Content-Type", ""))
    length = request.headers.get("Content-Length", "")
    check_size(int(length) if length.isdecimal() else 0)


class EventStream(AsyncIterator[bytes]):
    """The body of a streamed answer; `close` must follow, read to the end or not."""

    def __init__(self, outputs: OutputStream) -> None:
        self._outputs = outputs
        self._protocol = outputs.protocol
        self._ended = False

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        try:
            async with asyncio.timeout(settings.PING_SECONDS):
                output = await anext(self._outputs)
            events = self._protocol.events(output)
        except TimeoutError:
            return PING
        except Exception as error:  # noqa: BLE001 - the client is told, as an event
            return await self._fail(error)
        if output.finished:
            self._ended = True
            events += self._protocol.end(self._outputs.total)
            await self._outputs.logged()
        return events

    def close(self) -> None:
        """Abort the request unless it ended."""
        self._outputs.close()

    async def _fail(self, error: Exception) -> bytes:
        self._ended = True
        api_error = as_api_error(error, self._outputs.total.request_id)
        self._outputs.fail(api_error)
        await self._outputs.logged()
        return event({"error": api_error.body["error"]}) + DONE


class EventStreamResponse(StreamingHttpResponse):
    """A 200 whose body is an EventStream."""

    def __init__(self, events: EventStream) -> None:
        super().__init__(
            events, headers=STREAM_HEADERS, content_type="text/event-stream; charset=utf-8"
        )
        self.events = events
