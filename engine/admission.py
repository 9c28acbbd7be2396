"""Who may wait: the bounds of the queue, and how fast it moves."""

import math
import time
from collections import deque
from collections.abc import Callable

from engine.errors import QueueFull
from engine.request import Request

_MEASURED_DEPARTURES = 64
_MAX_RETRY_AFTER = 60


class Admission:
    """Counts requests from their admission to their first output; its owner locks.

    One request may be larger than `max_tokens`, if nothing else waits.
    """

    def __init__(
        self, max_requests: int, max_tokens: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_requests = max_requests
        self._max_tokens = max_tokens
        self._clock = clock
        self._waiting: dict[str, int] = {}
        self._num_tokens = 0
        self._departures: deque[float] = deque(maxlen=_MEASURED_DEPARTURES)

    def enter(self, request: Request) -> None:
        """Let a request wait; raises QueueFull."""
        tokens = request.num_prompt_tokens
        if len(self._waiting) >= self._max_requests:
            raise QueueFull("Too many requests are waiting; try again later.", self._retry_after())
        if self._waiting and self._num_tokens + tokens > self._max_tokens:
            message = "Too many prompt tokens are waiting; try again later."
            raise QueueFull(message, self._retry_after())
        self._waiting[request.request_id] = tokens
        self._num_tokens += tokens

    def leave(self, request_id: str) -> None:
        """A request began, failed or was aborted; those that don't wait are ignored."""
        tokens = self._waiting.pop(request_id, None)
        if tokens is not None:
            self._num_tokens -= tokens
            self._departures.append(self._clock())

    def _retry_after(self) -> int:
        """Seconds until who waits now will have begun, as fast as the last ones did."""
        if not self._departures:
            return 1
        seconds = self._clock() - self._departures[0]
        expected = math.ceil(len(self._waiting) * seconds / len(self._departures))
        return min(max(1, expected), _MAX_RETRY_AFTER)
