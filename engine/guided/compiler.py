"""Compiles constraints in the background and remembers the results."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any

from engine.errors import EngineUnavailable, InvalidRequest, QueueFull
from engine.guided.backend import Backend, CompiledGrammar, ConstraintError, Vocabulary
from engine.sampling_params import GuidedParams

BACKENDS = {
    "llguidance": "engine.guided.llguidance_backend.LLGuidanceBackend",
    "outlines": "engine.guided.outlines_backend.OutlinesBackend",
    "lm-format-enforcer": "engine.guided.lmfe_backend.LMFormatEnforcerBackend",
}
"""Backends by name: dotted paths of classes that are made by calling them with a Vocabulary."""

MAX_SOURCE_CHARS = 1_000_000
"""Longer sources are refused unread."""

MAX_PENDING = 64
"""How many compilations may wait or run at a time; hostile ones take seconds each."""

_THREADS_PER_BACKEND = 2


class GrammarCompiler:
    """Compiles for one tokenizer; safe to use from any thread.

    `backends` adds to BACKENDS or replaces some; a bad dotted path raises ImportError or
    AttributeError, a `default` that is none of them KeyError. The `cache_size` constraints used
    last are kept, failures are not.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        backends: Mapping[str, str] | None = None,
        default: str = "llguidance",
        cache_size: int = 64,
    ) -> None:
        paths = BACKENDS | dict(backends or {})
        self._workers = {
            name: _Worker(name, _load(path), vocabulary) for name, path in paths.items()
        }
        self._default = default
        self._cache_size = cache_size
        self._cache: OrderedDict[GuidedParams, Future[CompiledGrammar]] = OrderedDict()
        self._pending: set[Future[CompiledGrammar]] = set()
        self._lock = threading.Lock()
        self._workers[default].warm_up()

    def compile(self, params: GuidedParams) -> Future[CompiledGrammar]:
        """The compiled constraint, to be waited for; equal constraints share one future.

        It can't be cancelled, which makes `asyncio.wrap_future` safe. Raises InvalidRequest that
        names the field at fault, at once or through the future, and QueueFull at once.
        """
        params = replace(params, backend=params.backend or self._default)
        worker = self._worker(params)
        with self._lock:
            future = self._cache.get(params)
            if future and not _is_used_up(future):
                self._cache.move_to_end(params)
                return future
            if len(self._pending) >= MAX_PENDING:
                raise QueueFull("Too many constraints are being compiled; try again later.")
            future = self._cache[params] = Future()
            self._pending.add(future)
            if len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        future.set_running_or_notify_cancel()
        future.add_done_callback(lambda done: self._end(params, done))
        worker.submit(params, future)
        return future

    def close(self) -> None:
        """End all threads and processes; what waits fails with EngineUnavailable."""
        with self._lock:
            pending = list(self._pending)
        for future in pending:
            with suppress(InvalidStateError):  # done in the meantime
                future.set_exception(EngineUnavailable("The server is shutting down."))
        for worker in self._workers.values():
            worker.close()

    def _worker(self, params: GuidedParams) -> "_Worker":
        worker = self._workers.get(params.backend or "")
        if worker is None:
            known = ", ".join(sorted(self._workers))
            raise _invalid("guided_decoding_backend", f"{params.backend!r} is none of {known}")
        if len(params.source) > MAX_SOURCE_CHARS:
            raise _invalid(params.param, f"longer than {MAX_SOURCE_CHARS} characters")
        if params.kind not in worker.kinds:
            able = ", ".join(sorted(n for n, w in self._workers.items() if params.kind in w.kinds))
            raise _invalid(
                "guided_decoding_backend",
                f"{params.backend} can't do {params.param}; those that can are {able}",
            )
        return worker

    def _end(self, params: GuidedParams, future: Future[CompiledGrammar]) -> None:
        with self._lock:
            self._pending.discard(future)
            if future.exception():
                self._cache.pop(params, None)


class _Worker:
    """A backend and threads of its own, so that a slow backend keeps no other waiting."""

    def __init__(self, name: str, backend_class: type[Backend], vocabulary: Vocabulary) -> None:
        self.kinds = backend_class.kinds
        self._backend_class = backend_class
        self._vocabulary = vocabulary
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS_PER_BACKEND, f"guided-{name}")

    @cached_property
    def _backend(self) -> Backend:
        return self._backend_class(self._vocabulary)

    def warm_up(self) -> None:
        self._pool.submit(self._load_backend)

    def submit(self, params: GuidedParams, future: Future[CompiledGrammar]) -> None:
        self._pool.submit(self._compile, params, future)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if close := getattr(self.__dict__.get("_backend"), "close", None):
            close()

    def _load_backend(self) -> Backend:
        with self._lock:
            return self._backend

    def _compile(self, params: GuidedParams, future: Future[CompiledGrammar]) -> None:
        with suppress(InvalidStateError):  # closed in the meantime
            try:
                future.set_result(self._load_backend().compile(params))
            except ConstraintError as error:
                future.set_exception(_invalid(error.field or params.param, error.message))
            except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
                future.set_exception(error)


def _is_used_up(future: Future[CompiledGrammar]) -> bool:
    return future.done() and not future.exception() and future.result().is_used_up


def _load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _invalid(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(field, f"{field}: {reason.rstrip('.')}.")
