"""`/v1/completions` by the URLconf alone, under ASGI and WSGI."""

import asyncio
from collections.abc import Iterator

from django.contrib.auth.decorators import login_not_required
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from completions.exchange import EventStream, EventStreamResponse, respond
from completions.openapi import COMPLETION, answers, describe
from completions.serializers import CompletionSerializer
from completions.views.base import ContractView, async_pieces


@csrf_exempt
@login_not_required
async def completions(request: HttpRequest) -> HttpResponseBase:
    """Answer on the server's event loop, or on one of its own under WSGI."""
    if isinstance(request, ASGIRequest):
        response = await respond(request, async_pieces(request))
    else:
        response = await asyncio.to_thread(_respond_blocking, request)
    if response.streaming:
        # Keeps GZipMiddleware away: it makes a gzip member of each event; most clients read one.
        response["Content-Encoding"] = "identity"
    return response


class CompletionEndpoint(ContractView):
    """What drf-spectacular describes in place of the function above."""

    @describe(
        operation_id="create_completion",
        request=CompletionSerializer,
        responses=answers(
            "The completion; with `stream`, server-sent events that end in `data: [DONE]`.",
            COMPLETION,
            *(400, 404, 405, 413, 415, 422, 500, 503),
        ),
    )
    def post(self) -> None:
        """Create completions for one or many prompts."""


completions.cls = CompletionEndpoint  # type: ignore[attr-defined]
completions.initkwargs = {}  # type: ignore[attr-defined]


def _respond_blocking(request: HttpRequest) -> HttpResponseBase:
    """Run an exchange to its response, and its stream piece by piece as the server asks for it."""
    runner = asyncio.Runner()
    try:
        response = runner.run(respond(request, async_pieces(request)))
    except BaseException:
        runner.close()
        raise
    if isinstance(response, EventStreamResponse):
        events = BlockingEvents(runner, response.events)
        return StreamingHttpResponse(events, headers=dict(response.items()))
    runner.close()
    return response


class BlockingEvents(Iterator[bytes]):
    """An EventStream for a synchronous server, with the event loop that it needs."""

    def __init__(self, runner: asyncio.Runner, events: EventStream) -> None:
        self._runner = runner
        self._events = events

    def __next__(self) -> bytes:
        try:
            return self._runner.run(anext(self._events))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """End the request if it did not end by itself; the server calls this in any case."""
        self._events.close()
        self._runner.close()
