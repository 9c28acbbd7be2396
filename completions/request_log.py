"""Writes the request log behind the requests' back: a bounded queue and one thread."""

import atexit
import contextlib
import functools
import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from django.db import DatabaseError, close_old_connections, connections, router, transaction

from completions.conf import settings
from completions.models import MAX_MODEL, MAX_USER, LoggedChoice, RequestLog

logger = logging.getLogger(__name__)

BATCH_ROWS = 200
BATCH_SECONDS = 0.2
FLUSH_SECONDS = 5.0

Entry = tuple[RequestLog, Sequence[LoggedChoice]]


class RequestLogWriter:
    """Takes rows without waiting and writes them in batches; `num_dropped` found no room."""

    def __init__(self) -> None:
        self.num_dropped = 0
        self._queue: queue.Queue[Entry] = queue.Queue(settings.LOG_QUEUE_SIZE)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def put(self, row: RequestLog, choices: Sequence[LoggedChoice] = ()) -> None:
        """Hand over a row; never blocks."""
        try:
            self._queue.put_nowait((row, choices))
        except queue.Full:
            self.num_dropped += 1
            if self.num_dropped == 1:
                logger.warning("the request log's queue is full: rows are dropped")
            return
        self._ensure_thread()

    def flush(self, timeout: float) -> None:
        """Wait until everything handed over is written, or give up."""
        deadline = time.monotonic() + timeout
        while self._queue.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.01)

    def _ensure_thread(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="request log", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            entries = self._next_batch()
            close_old_connections()
            try:
                write(entries)
            except Exception:
                logger.exception("%d rows of the request log are lost", len(entries))
            finally:
                connections.close_all()
                for _ in entries:
                    self._queue.task_done()

    def _next_batch(self) -> list[Entry]:
        entries = [self._queue.get()]
        deadline = time.monotonic() + BATCH_SECONDS
        while len(entries) < BATCH_ROWS:
            try:
                entries.append(self._queue.get(timeout=max(0, deadline - time.monotonic())))
            except queue.Empty:
                break
        return entries


def write(entries: Sequence[Entry]) -> None:
    """Save rows with their choices; if the database refuses the batch, save what it takes."""
    for row, choices in entries:
        _make_storable(row, choices)
    try:
        _save(entries)
    except DatabaseError:
        if len(entries) == 1:
            raise
        logger.warning("saving the request log row by row", exc_info=True)
        for entry in entries:
            with contextlib.suppress(DatabaseError):
                _save([entry])


def _save(entries: Sequence[Entry]) -> None:
    with transaction.atomic(using=router.db_for_write(RequestLog)):
        RequestLog.objects.bulk_create([row for row, _ in entries])
        LoggedChoice.objects.bulk_create([choice for _, choices in entries for choice in choices])


def _make_storable(row: RequestLog, choices: Sequence[LoggedChoice]) -> None:
    """Cut long texts, and escape what databases refuse: NUL and halves of surrogate pairs."""
    for name in ("model", "user", "error", "prompt"):
        setattr(row, name, _storable(getattr(row, name)))
    row.model = row.model[:MAX_MODEL]
    row.user = row.user[:MAX_USER]
    row.parameters = _storable_json(row.parameters)
    for choice in choices:
        choice.text = _storable(choice.text)
        choice.stop_reason = _storable_json(choice.stop_reason)
        choice.logprobs = _storable_json(choice.logprobs)


def _storable(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    limit = settings.LOG_MAX_CHARACTERS
    return text if len(text) <= limit else f"{text[:limit]}…"


def _storable_json(value: Any) -> Any:
    if isinstance(value, str):
        return _storable(value)
    if isinstance(value, list | tuple):
        return [_storable_json(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable_json(item) for key, item in value.items()}
    return value


@functools.cache
def get_writer() -> RequestLogWriter:
    """The process's writer."""
    writer = RequestLogWriter()
    atexit.register(writer.flush, FLUSH_SECONDS)
    return writer
