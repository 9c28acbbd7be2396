"""Who waits for a slot."""

from collections import OrderedDict, deque
from collections.abc import Iterable

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

    def put_back(self, sequence: Sequence) -> None:
        """Let a sequence that had its turn wait again, behind who is next."""
        self._turns.setdefault(sequence.owner, deque()).appendleft(sequence)

    def peek(self) -> Sequence:
        """Who is next."""
        return next(iter(self._turns.values()))[0]

    def pop(self) -> Sequence:
        """Take who is next; its request goes to the end of the line."""
        owner, queue = next(iter(self._turns.items()))
        sequence = queue.popleft()
        if queue:
            self._turns.move_to_end(owner)
        else:
            del self._turns[owner]
        return sequence

    def remove(self, owner: RequestState) -> None:
        """Forget a request."""
        self._turns.pop(owner, None)
