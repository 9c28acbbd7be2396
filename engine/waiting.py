"""Who waits for a slot."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from itertools import islice

from engine.sequence import RequestState, Sequence


class WaitingQueue:
    """Sequences in the order of their requests' arrival, one of each request in turn.

    A request with many candidates so delays another by one candidate, not by all of them.
    """

    def __init__(self) -> None:
        self._turns: OrderedDict[RequestState, deque[Sequence]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._turns)

    @property
    def num_requests(self) -> int:
        """Requests with at least one waiting sequence."""
        return len(self._turns)

    def extend(self, owner: RequestState, sequences: Iterable[Sequence]) -> None:
        """Let more sequences of a request wait."""
        queue = deque(sequences)
        if queue:
            self._turns.setdefault(owner, deque()).extend(queue)

    def peek(self, turn: int = 0) -> Sequence:
        """Who is next, or next but `turn` requests."""
        return self._at(turn)[1][0]

    def pop(self, turn: int = 0) -> Sequence:
        """Take who is next, or next but `turn`; its request goes to the end of the line."""
        owner, queue = self._at(turn)
        sequence = queue.popleft()
        if queue:
            self._turns.move_to_end(owner)
        else:
            del self._turns[owner]
        return sequence

    def _at(self, turn: int) -> tuple[RequestState, deque[Sequence]]:
        return next(islice(self._turns.items(), turn, None))

    def remove(self, owner: RequestState) -> None:
        """Forget a request."""
        self._turns.pop(owner, None)
