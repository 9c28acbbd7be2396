"""Processes of their own for what must not hurt the engine: the first compilation of a constraint.

A short pattern can ask for exponential time or memory, and a deep grammar for more stack than
there is. A thread can't be stopped; a process is ended by the kernel at its bounds, and the next
constraint gets a fresh one.
"""

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import LifoQueue
from typing import Any

from engine.guided.backend import ConstraintError, Vocabulary
from engine.sampling_params import GuidedParams

CPU_SECONDS = 5
"""Processor time that one compilation may take."""

MEMORY_BYTES = 512 * 2**20
"""Address space that the compilations of a process may add to what it starts with."""

PROCESSES = 2
"""How many compilations may run at a time; the second process starts when it is first needed."""

NICENESS = 5
"""Priority below the engine's, so that a long compilation slows it little."""

Job = Callable[[GuidedParams], Any]


@dataclass(frozen=True, slots=True)
class PlainVocabulary:
    """A Vocabulary's data alone, fit to be sent to another process; it can't split texts."""

    token_bytes: Sequence[bytes]
    eos_token_ids: Sequence[int]
    special_token_ids: frozenset[int]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "PlainVocabulary":
        """Copy what a Vocabulary knows."""
        return cls(
            [bytes(token) for token in vocabulary.token_bytes],
            list(vocabulary.eos_token_ids),
            frozenset(filter(vocabulary.is_special, range(vocabulary.vocab_size))),
        )


class Sandbox:
    """Runs `make_job(vocabulary)` on constraints, within bounds, for any number of threads.

    `make_job` is a module's function; what its job returns must be picklable.
    """

    def __init__(
        self, make_job: Callable[[PlainVocabulary], Job], vocabulary: PlainVocabulary
    ) -> None:
        self._processes = [_Process((make_job, vocabulary)) for _ in range(PROCESSES)]
        self._idle: LifoQueue[_Process] = LifoQueue()  # last in, first out: a warm one first
        for process in self._processes:
            self._idle.put(process)
        self._processes[-1].start()

    def run(self, params: GuidedParams) -> Any:
        """The job's result; raises ConstraintError for a bad constraint or one out of bounds."""
        process = self._idle.get()
        try:
            result = process.run(params)
        finally:
            self._idle.put(process)
        if isinstance(result, ConstraintError):
            raise result
        return result

    def close(self) -> None:
        """End the processes, also in the middle of a job."""
        for process in self._processes:
            process.kill()


class _Process:
    """One process, started when there is something to do and again after it was ended."""

    def __init__(self, setup: tuple[Callable[[PlainVocabulary], Job], PlainVocabulary]) -> None:
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def start(self) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "engine.guided.sandbox", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._connection = Connection(ours.detach())
        self._connection.send(self._setup)
        return self._connection

    def run(self, params: GuidedParams) -> Any:
        try:
            connection = self._connection or self.start()
            connection.send(params)
            return connection.recv()
        except (EOFError, OSError):
            self.kill()
            self._connection = None
            return ConstraintError("too complex: it can't be compiled within bounds")

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()


def serve(connection: Connection) -> None:
    """A process's life: compile what comes, until the other side closes."""
    make_job, vocabulary = connection.recv()
    job = make_job(vocabulary)
    limit = _address_space() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    while True:
        params = connection.recv()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # its signal ends the process
        try:
            result = job(params)
        except ConstraintError as error:
            result = error
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send(result)


def _address_space() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    return int(pages) * resource.getpagesize()


if __name__ == "__main__":
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that serves
    with suppress(EOFError, OSError):
        serve(Connection(int(sys.argv[1])))
