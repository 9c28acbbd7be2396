"""What this process's engine is doing, as server-sent events."""

import json
import time
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse

from completions.admin.streaming import streamed
from completions.engines import registry
from completions.exchange import STREAM_HEADERS

SECONDS = 1.0
NUM_EVENTS = 300
"""After that many the stream ends, and the browser asks again: a sign-out takes effect."""


def view(request: HttpRequest) -> StreamingHttpResponse:
    """An event per second."""
    return streamed(request, _events(), content_type="text/event-stream", headers=STREAM_HEADERS)


def _events() -> Iterator[str]:
    generated, moment = None, 0.0
    for number in range(NUM_EVENTS):
        if number:
            time.sleep(SECONDS)
        state, now = snapshot(), time.monotonic()
        total = state.pop("generation_tokens_total")
        rate = 0.0 if generated is None else max(total - generated, 0) / (now - moment)
        generated, moment = total, now
        yield f"data: {json.dumps({**state, 'tokens_per_second': round(rate, 1)})}\n\n"


def snapshot() -> dict[str, Any]:
    """The engine's state and numbers; zeros as long as nobody has asked it anything."""
    engine = registry.current
    stats = engine.stats() if engine else None
    fields = (
        "running",
        "waiting",
        "slots_in_use",
        "num_slots",
        "cache_usage",
        "generation_tokens_total",
    )
    numbers = {name: getattr(stats, name, 0) for name in fields}
    return {"state": engine.state if engine else "not loaded", **numbers}
