"""A completion from a checked body to its answer, without anything of HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from completions.completion_request import CompletionRequest, read_request
from completions.conf import settings
from completions.engines import get_engine
from completions.exceptions import ApiError, ServiceUnavailable
from completions.prompts import check_suffix, encode_prompts, prompt_texts
from completions.protocol import Protocol
from completions.record import Record
from engine.outputs import RequestOutput
from engine.request import Request

if TYPE_CHECKING:
    from engine.async_engine import AsyncEngine, RequestStream

Json = dict[str, Any]
Result = TypeVar("Result")

INLINE_POSITIONS = 2000
"""An answer with more logprobs is built in a thread: it would hold up the event loop."""


class Generation:
    """A request that passed all checks but those of its constraint and of admission.

    `complete` or `stream` runs it once.
    """

    def __init__(
        self, engine: "AsyncEngine", completion: CompletionRequest, request: Request, record: Record
    ) -> None:
        self.completion = completion
        self._record = record
        self._engine = engine
        self._request = request
        self._deadline = _deadline()
        tokens = [len(prompt.token_ids) for prompt in request.prompts]
        self._protocol = Protocol(request.request_id, int(time.time()), completion, tokens)

    async def complete(self) -> Json:
        """The completion object; cancelling it frees what the request holds."""
        outputs = await self._engine.generate(self._request)
        total = RequestOutput(self._request.request_id)
        try:
            async with _time_limit(self._deadline):
                async for output in outputs:
                    total.merge(output)
        finally:
            outputs.abort()  # without effect once the request ended
        answer = await off_loop(self._is_large(total), lambda: self._answer(total))
        self._record.finish(total, self._protocol.ranked(total))
        await self._record.stored()
        return answer

    async def stream(self) -> "OutputStream":
        """The outputs as they come; admission happens now."""
        outputs = await self._engine.generate(self._request)
        return OutputStream(outputs, self._protocol, self._record, self._deadline)

    def _answer(self, total: RequestOutput) -> Json:
        echo = self.completion.echo
        texts = prompt_texts(self.completion, self._engine.tokenizer) if echo else []
        return self._protocol.completion(total, texts)

    def _is_large(self, total: RequestOutput) -> bool:
        """Whether writing it takes longer than a few milliseconds."""
        positions = sum(len(candidate.logprobs) for candidate in total.candidates.values())
        prompt_positions = sum(len(prompt.logprobs or ()) for prompt in total.prompts)
        return positions + prompt_positions * self.completion.params.n > INLINE_POSITIONS


class OutputStream(AsyncIterator[RequestOutput]):
    """A running request's outputs, and their sum; `close` must follow, read to the end or not."""

    def __init__(
        self,
        outputs: "RequestStream",
        protocol: Protocol,
        record: Record,
        deadline: float | None,
    ) -> None:
        self.protocol = protocol
        self.total = RequestOutput(outputs.request.request_id)
        self._outputs = outputs
        self._record = record
        self._deadline = deadline

    async def __anext__(self) -> RequestOutput:
        async with _time_limit(self._deadline):
            output = await anext(self._outputs)
        self.total.merge(output)
        if output.finished:
            self._record.finish(self.total, self.protocol.ranked(self.total))
        return output

    async def logged(self) -> None:
        """Wait for its row in the log, for a while."""
        await self._record.stored()

    def fail(self, error: ApiError) -> None:
        """Put down why it ended before its end."""
        self._outputs.abort()
        self._record.fail(error, self.total)

    def close(self) -> None:
        """Free what the request holds; without effect once it ended."""
        self._outputs.abort()
        self._record.abandon(self.total)


def prepare(body: Json, record: Record) -> Generation:
    """The checks from the schema to the context; blocks while it validates and tokenizes."""
    completion = read_request(body)
    record.note_request(completion)
    engine = get_engine(completion.model)
    check_suffix(completion, engine.model)
    prompts = encode_prompts(completion, engine.model, engine.tokenizer)
    request = Request(record.request_id, prompts, completion.params)
    engine.check(request)
    record.note_prompts(prompts)
    return Generation(engine, completion, request, record)


async def off_loop(condition: bool, function: Callable[[], Result]) -> Result:
    """Call a function, in a thread if the condition says that it would block for long."""
    return await asyncio.to_thread(function) if condition else function()


def _deadline() -> float | None:
    """When a request that begins now has had its REQUEST_TIMEOUT, on the monotonic clock."""
    limit = settings.REQUEST_TIMEOUT
    return None if limit is None else time.monotonic() + limit


@asynccontextmanager
async def _time_limit(deadline: float | None) -> AsyncIterator[None]:
    left = None if deadline is None else deadline - time.monotonic()
    try:
        async with asyncio.timeout(left):
            yield
    except TimeoutError:
        message = f"The request took longer than {settings.REQUEST_TIMEOUT:g} seconds."
        raise ServiceUnavailable(message, retry_after=1) from None
