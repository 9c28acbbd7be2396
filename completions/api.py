"""Completions for a site's own code, with the fields of `/v1/completions` as keywords.

    from completions import acomplete, astream, complete

    text = complete("Once upon a time", max_tokens=32)["choices"][0]["text"]

They answer what the endpoint answers, log as it does, and raise `ApiError` where it refuses. The
first call loads the model and waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from completions.engines import get_engine, registry
from completions.exceptions import as_api_error
from completions.fields import Prompts
from completions.generation import Generation, Json, prepare
from completions.record import Record


def complete(prompt: str | Prompts, **fields: Any) -> Json:
    """The completion object, for synchronous code."""
    return asyncio.run(acomplete(prompt, **fields))


async def acomplete(prompt: str | Prompts, **fields: Any) -> Json:
    """The completion object."""
    record = Record()
    with _refusals(record):
        generation = await _prepare({"prompt": prompt, **fields, "stream": False}, record)
        return await generation.complete()


async def astream(prompt: str | Prompts, **fields: Any) -> AsyncIterator[Json]:
    """The chunks of a completion as they come."""
    record = Record()
    with _refusals(record):
        generation = await _prepare({"prompt": prompt, **fields, "stream": True}, record)
        outputs = await generation.stream()
    try:
        async for output in outputs:
            for chunk in outputs.protocol.chunks(output):
                yield chunk
    finally:
        outputs.close()


async def _prepare(body: Json, record: Record) -> Generation:
    def blocking() -> Generation:
        get_engine().wait_until_ready()
        return prepare({"model": registry.model, **body}, record)

    return await asyncio.to_thread(blocking)


@contextmanager
def _refusals(record: Record) -> Iterator[None]:
    """Log what is refused, and raise it as the answer that the endpoint would give."""
    try:
        yield
    except Exception as error:
        api_error = as_api_error(error, record.request_id)
        record.refuse(api_error)
        raise api_error from error
