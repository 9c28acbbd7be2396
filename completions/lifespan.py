"""Start and end of a serving process."""

import asyncio
from typing import Any

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable

from completions.conf import settings
from completions.engines import registry
from completions.request_log import FLUSH_SECONDS, get_writer


async def lifespan(scope: Any, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:  # noqa: ARG001
    """ASGI's lifespan protocol: load at startup without waiting, drain at shutdown."""
    await receive()
    registry.get()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await shut_down()
    await send({"type": "lifespan.shutdown.complete"})


async def shut_down() -> None:
    """Take no more requests, let the running ones end (DRAIN_SECONDS at most), write the log."""
    if engine := registry.current:
        await engine.drain(settings.DRAIN_SECONDS)
    await asyncio.to_thread(registry.close)
    await asyncio.to_thread(get_writer().flush, FLUSH_SECONDS)
