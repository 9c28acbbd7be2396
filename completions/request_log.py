"""Writes the request log behind the requests' back: a bounded queue and one thread."""

import atexit
import functools
import logging
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from django.db import (
    DataError,
    IntegrityError,
    close_old_connections,
    connections,
    router,
    transaction,
)

from completions.conf import settings
from completions.log_content import apply_policy
from completions.log_retention import prune_batch
from completions.metrics import LOG_DROPPED
from completions.models import LoggedChoice, RequestLog

logger = logging.getLogger(__name__)

BATCH_ROWS = 200
FLUSH_SECONDS = 5.0
RETRY_SECONDS = 30.0
"""How long a batch is tried again that the database could not take: a restart loses nothing."""
PAUSE_SECONDS = 1.0
PRUNE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A row with its choices; `ended` is set once they are stored, or dropped."""

    row: RequestLog
    choices: Sequence[LoggedChoice] = ()
    ended: Future[None] = field(default_factory=Future)


class RequestLogWriter:
    """Takes rows without waiting; what came while a batch was committed is the next batch.

    `is_failing` says that the database takes nothing now. Rows that find no room, and batches
    that it refuses for RETRY_SECONDS, are dropped and counted.
    """

    def __init__(self) -> None:
        self.is_failing = False
        self._queue: queue.Queue[Entry] = queue.Queue(settings.LOG_QUEUE_SIZE)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._next_prune = 0.0

    def put(self, row: RequestLog, choices: Sequence[LoggedChoice] = ()) -> Future[None] | None:
        """Hand over a row; never blocks. What tells when it is stored; None if it is dropped."""
        entry = Entry(row, choices)
        try:
            self._queue.put_nowait(entry)
        except queue.Full:
            LOG_DROPPED.inc()
            return None
        self._ensure_thread()
        return entry.ended

    def flush(self, timeout: float) -> None:
        """Wait until everything handed over is written, or give up."""
        deadline = time.monotonic() + timeout
        while self._queue.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.01)
        if left := self._queue.unfinished_tasks:
            logger.error("%d rows of the request log were not written", left)

    def _ensure_thread(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="request log", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            entries = self._next_batch()
            try:
                for entry in entries:
                    apply_policy(entry.row, entry.choices)
                self._write(entries)
                self._prune()
            except Exception:
                logger.exception("the request log failed")
            finally:
                for entry in entries:
                    entry.ended.set_result(None)
                    self._queue.task_done()

    def _next_batch(self) -> list[Entry]:
        entries = [self._queue.get()]
        while len(entries) < BATCH_ROWS and not self._queue.empty():
            entries.append(self._queue.get())
        return entries

    def _write(self, entries: Sequence[Entry]) -> None:
        """Store a batch, again and again for a while if the database is away."""
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                close_old_connections()
                num_dropped = write(entries)
            except Exception:
                if not self.is_failing:
                    logger.exception("the request log can't be written; completions go on")
                self.is_failing = True
                if time.monotonic() > deadline:
                    num_dropped = len(entries)
                    break
                time.sleep(PAUSE_SECONDS)
            else:
                self.is_failing = False
                break
            finally:
                connections.close_all()
        if num_dropped:
            LOG_DROPPED.inc(num_dropped)
            logger.error("%d rows of the request log are lost", num_dropped)

    def _prune(self) -> None:
        """Delete a batch of surplus rows at times, and the next one soon if there was one."""
        if not self.is_failing and time.monotonic() >= self._next_prune:
            try:
                deleted = prune_batch()
            finally:
                connections.close_all()
            self._next_prune = time.monotonic() + (PAUSE_SECONDS if deleted else PRUNE_SECONDS)


def write(entries: Sequence[Entry]) -> int:
    """Save rows with their choices; how many the database refused for what is in them.

    Raises another DatabaseError if it takes none now: it is locked, full or away.
    """
    try:
        _save(entries)
    except (DataError, IntegrityError):
        logger.warning("saving the request log row by row", exc_info=True)
        return sum(not _is_saved(entry) for entry in entries)
    return 0


def _is_saved(entry: Entry) -> bool:
    try:
        _save([entry])
    except (DataError, IntegrityError):
        return False
    return True


def _save(entries: Sequence[Entry]) -> None:
    choices = [choice for entry in entries for choice in entry.choices]
    for each in (*(entry.row for entry in entries), *choices):
        each.pk = None  # an attempt that was rolled back has set it
    with transaction.atomic(using=router.db_for_write(RequestLog)):
        RequestLog.objects.bulk_create([entry.row for entry in entries])
        LoggedChoice.objects.bulk_create(choices)


@functools.cache
def get_writer() -> RequestLogWriter:
    """The process's writer."""
    writer = RequestLogWriter()
    atexit.register(writer.flush, FLUSH_SECONDS)
    return writer
