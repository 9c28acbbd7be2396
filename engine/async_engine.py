"""The engine behind its own thread: what a web process talks to."""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable, Container, Iterable
from typing import Literal

from engine.admission import Admission
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import EngineUnavailable, GenerationFailed
from engine.guided.backend import CompiledGrammar
from engine.guided.compiler import GrammarCompiler
from engine.model_folder import ModelConfig
from engine.outputs import RequestOutput
from engine.request import Request
from engine.sampling_params import GuidedParams
from engine.stats import EngineStats
from engine.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

EngineState = Literal["new", "loading", "ready", "draining", "failed", "stopped"]

_ENDING: tuple[EngineState, ...] = ("draining", "failed", "stopped")

_ANY_JSON = GuidedParams("json", "{}", backend="llguidance")

_UNAVAILABLE = {
    "new": "The model is not loaded yet.",
    "loading": "The model is loading.",
    "draining": "The server is shutting down.",
    "failed": "The engine failed.",
    "stopped": "The server is shutting down.",
}

_FAULT = "The engine failed while it computed this request."
_RECOVERY_TRIES = 3
_RECOVERY_SECONDS = 1.0
"""Pause between tries: memory that ran out may be free again."""


class RequestStream(AsyncIterator[RequestOutput]):
    """One request's outputs as they come, merged while nobody reads (a mailbox of one slot)."""

    def __init__(self, request: Request, abort: Callable[[str], None]) -> None:
        self.request = request
        self._abort = abort
        self._loop = asyncio.get_running_loop()
        self._arrival = asyncio.Event()
        self._pending: RequestOutput | None = None
        self._finished = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that reads."""
        return self._loop

    def put(self, output: RequestOutput) -> None:
        """Add an output; called on the reader's loop."""
        if self._pending:
            self._pending.merge(output)
        else:
            self._pending = output
        self._arrival.set()

    async def __anext__(self) -> RequestOutput:
        if self._finished:
            raise StopAsyncIteration
        await self._arrival.wait()
        self._arrival.clear()
        output, self._pending = self._pending, None
        assert output is not None
        if output.error is not None:
            self._finished = True
            raise GenerationFailed(output.error)
        self._finished = output.finished
        return output

    def abort(self) -> None:
        """Stop the request unless it ended; its slots are free at the next step."""
        if not self._finished:
            self._finished = True
            self._abort(self.request.request_id)


class AsyncEngine:
    """Owns the one thread in which the engine loads and steps.

    Requests and aborts go in through a queue; outputs come back with one call per step into
    each reader's event loop. Constraints are compiled beside it, before admission.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.state: EngineState = "new"
        self.failure: str | None = None
        self._engine: Engine | None = None
        self._compiler: GrammarCompiler | None = None
        self._inbox: queue.SimpleQueue[Callable[[Engine], None]] = queue.SimpleQueue()
        self._streams: dict[str, RequestStream] = {}
        self._admission = Admission(config.max_waiting_requests, config.max_waiting_tokens)
        self._lock = threading.Lock()
        self._loaded = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="engine", daemon=True)

    @property
    def model(self) -> ModelConfig:
        """The loaded model's facts."""
        return self._loaded_engine().model

    @property
    def max_model_len(self) -> int:
        """The context length that is served."""
        return self._loaded_engine().max_model_len

    @property
    def tokenizer(self) -> Tokenizer:
        """The loaded model's tokenizer."""
        return self._loaded_engine().tokenizer

    def start(self) -> None:
        """Load and warm up in the engine's thread; returns at once."""
        self.state = "loading"
        self._thread.start()

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Block until the model answers; raises EngineError if it failed to load."""
        if not self._loaded.wait(timeout):
            raise EngineUnavailable(_UNAVAILABLE["loading"])
        self._loaded_engine()

    def check(self, request: Request) -> None:
        """Raise InvalidRequest if this model can never serve the request."""
        self._loaded_engine().check(request)

    async def generate(self, request: Request) -> RequestStream:
        """Admit a request that passed `check`; its outputs come on the running event loop.

        Raises InvalidRequest for a constraint that can't be compiled, EngineUnavailable or
        QueueFull.
        """
        grammar = await self._compile(request.params.guided)
        stream = RequestStream(request, self.abort)
        with self._lock:
            if self.state != "ready":
                raise EngineUnavailable(_UNAVAILABLE[self.state])
            self._admission.enter(request)
            self._streams[request.request_id] = stream
        self._inbox.put(lambda engine: self._add(engine, request, grammar))
        return stream

    def abort(self, request_id: str) -> None:
        """Free all that a request holds at the next step."""
        with self._lock:
            self._streams.pop(request_id, None)
            self._admission.leave(request_id)
        self._inbox.put(lambda engine: engine.abort(request_id))

    def stats(self) -> EngineStats:
        """What the engine is doing; zeros while it isn't loaded."""
        return self._engine.stats() if self._engine else EngineStats()

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109 - it bounds, and never raises
        """Take no more requests and wait for the running ones, `timeout` seconds at most."""
        self._move("draining", unless=("failed", "stopped"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._streams:  # noqa: ASYNC110 - once per process, no event worth its upkeep
                    await asyncio.sleep(0.05)

    def stop(self) -> None:
        """End the thread after the step it is in."""
        self.state = "stopped"
        self._stopping.set()
        self._inbox.put(lambda _: None)
        if self._thread.is_alive():
            self._thread.join()
        if self._compiler:
            self._compiler.close()

    def _loaded_engine(self) -> Engine:
        if self._engine is None:
            message = self.failure or _UNAVAILABLE[self.state]
            raise EngineUnavailable(message)
        return self._engine

    async def _compile(self, guided: GuidedParams | None) -> CompiledGrammar | None:
        if guided is None:
            return None
        self._loaded_engine()
        assert self._compiler
        return await asyncio.wrap_future(self._compiler.compile(guided))

    def _move(self, new: EngineState, *, unless: Container[EngineState]) -> None:
        with self._lock:
            if self.state not in unless:
                self.state = new

    # What follows runs in the engine's thread.

    def _main(self) -> None:
        engine = self._load()
        while engine and not self._stopping.is_set():
            try:
                self._work(engine)
            except Exception:
                logger.exception("the engine failed; requests that had begun end with an error")
                if not self._recover(engine):
                    break
        with self._lock:
            left = list(self._streams)
        self._end(left, _UNAVAILABLE[self.state])

    def _load(self) -> Engine | None:
        try:
            engine = Engine(self.config)
            self._compiler = GrammarCompiler(
                engine.tokenizer,
                backends=self.config.guided_backends,
                default=self.config.guided_backend,
            )
            engine.warm_up(_ANY_JSON, self._compiler.compile(_ANY_JSON).result())
            self._engine = engine
            self._move("ready", unless=_ENDING)
        except Exception as error:
            logger.exception("the engine failed to load")
            self._fail(f"The model could not be loaded: {error}")
            return None
        finally:
            self._loaded.set()
        return engine

    def _recover(self, engine: Engine) -> bool:
        """After a fault: end what had begun, and take requests again once the model computes."""
        self._move("loading", unless=_ENDING)
        self._hand_over(engine.fail_started(_FAULT))
        for _ in range(_RECOVERY_TRIES):
            try:
                engine.warm_up()
            except Exception:
                logger.exception("the engine does not compute")
                if self._stopping.wait(_RECOVERY_SECONDS):
                    return False
            else:
                self._move("ready", unless=_ENDING)
                return True
        self._fail("The engine failed and could not be reset; restart the server.")
        return False

    def _fail(self, failure: str) -> None:
        self.failure = failure
        self._move("failed", unless=("stopped",))

    def _add(self, engine: Engine, request: Request, grammar: CompiledGrammar | None) -> None:
        try:
            engine.add(request, grammar)
        except Exception:
            logger.exception("a request could not be taken in")
            engine.abort(request.request_id)
            self._end([request.request_id], _FAULT)

    def _end(self, request_ids: Iterable[str], error: str) -> None:
        self._hand_over([RequestOutput(each, error=error) for each in request_ids])

    def _work(self, engine: Engine) -> None:
        """Take in what came, compute one step and hand over its outputs."""
        for command in self._commands(wait=not engine.has_work):
            command(engine)
        outputs = engine.step()
        if outputs:
            self._hand_over(outputs)

    def _commands(self, *, wait: bool) -> Iterable[Callable[[Engine], None]]:
        if wait:
            yield self._inbox.get()
        while not self._inbox.empty():
            yield self._inbox.get()

    def _hand_over(self, outputs: list[RequestOutput]) -> None:
        """Put each output into its stream, with one call into each event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[RequestStream, RequestOutput]]] = {}
        with self._lock:
            for output in outputs:
                self._admission.leave(output.request_id)
                stream = self._streams.get(output.request_id)
                if stream:
                    by_loop.setdefault(stream.loop, []).append((stream, output))
                    if output.finished:
                        del self._streams[output.request_id]
        for loop, deliveries in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: its readers are gone
                loop.call_soon_threadsafe(_deliver, deliveries)


def _deliver(deliveries: list[tuple[RequestStream, RequestOutput]]) -> None:
    for stream, output in deliveries:
        stream.put(output)
