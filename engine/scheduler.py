"""Who runs in the next step, and in which slots."""

from dataclasses import dataclass

from engine.sequence import RequestState, Sequence
from engine.slots import Slots
from engine.waiting import WaitingQueue


@dataclass(frozen=True, slots=True)
class Prefill:
    """The next `size` tokens of the sequence in the staging slot."""

    sequence: Sequence
    size: int

    @property
    def is_last(self) -> bool:
        """Whether the prompt is complete with it, so that its logits give the next token."""
        return self.size == self.sequence.num_remaining


@dataclass(frozen=True, slots=True)
class Batch:
    """One step: a token for each running sequence, and at most one chunk of a prompt."""

    decode: list[Sequence]
    prefill: Prefill | None

    def __bool__(self) -> bool:
        return bool(self.decode or self.prefill)


class Scheduler:
    """Lets waiting sequences into slots and decides what each step computes.

    A sequence of which one token is left to compute runs; one with more is first computed in the
    staging slot, `prefill_chunk` tokens a step, so that a long prompt never stalls the others.
    """

    def __init__(self, slots: Slots, prefill_chunk: int, *, prefix_reuse: bool = True) -> None:
        self.slots = slots
        self.waiting = WaitingQueue()
        self._prefill_chunk = prefill_chunk
        self._prefix_reuse = prefix_reuse
        self._staged: Sequence | None = None
        self._staged_from = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would compute anything."""
        return bool(self.waiting or self._staged or len(self.slots))

    def running(self) -> list[Sequence]:
        """All sequences that have a slot."""
        staged = [self._staged] if self._staged else []
        return [*self.slots, *staged]

    def schedule(self) -> Batch:
        """Admit who fits and choose the step."""
        self._admit()
        return Batch(list(self.slots), self._next_chunk())

    def is_staged(self, sequence: Sequence) -> bool:
        """Whether a sequence is in the staging slot."""
        return sequence is self._staged

    def complete_prefill(self, sequence: Sequence) -> None:
        """Let the staged sequence run: its prompt is computed."""
        self._staged = None
        self.slots.run(sequence, self.slots.staging, sequence.num_computed_tokens)

    def finish(self, sequence: Sequence) -> None:
        """Free the slot of a sequence that ended."""
        if sequence is self._staged:
            self._staged = None
            self.slots.keep(sequence)
        else:
            self.slots.remove(sequence)

    def abort(self, owner: RequestState) -> None:
        """Free all that a request holds."""
        self.waiting.remove(owner)
        for sequence in reversed(self.running()):
            if sequence.owner is owner:
                self.finish(sequence)

    def _admit(self) -> None:
        while self.waiting and self._num_free:
            sequence = self.waiting.peek()
            source, length = self._reusable(sequence)
            num_remaining = sequence.num_tokens - length
            if num_remaining > 1 and not self._may_stage(num_remaining):
                return
            self.waiting.pop()
            sequence.begin(length)
            if num_remaining == 1:
                self.slots.run(sequence, source, length)
            else:
                self._stage(sequence, source, length)

    @property
    def _num_free(self) -> int:
        return self.slots.num_slots - len(self.running())

    def _reusable(self, sequence: Sequence) -> tuple[int, int]:
        """The slot that holds the longest usable prefix, and its length."""
        if sequence.is_resumed or (self._prefix_reuse and not sequence.prompt.wants_logprobs):
            return self.slots.longest_prefix(sequence.tokens)
        return self.slots.staging, 0

    def _may_stage(self, num_remaining: int) -> bool:
        """Whether the staging slot is free, or held by a long prompt that a short one overtakes.

        The long one goes on from its kept prefix, after at least one chunk in each of its turns.
        """
        staged = self._staged
        if staged is None:
            return True
        has_moved = staged.num_computed_tokens > self._staged_from
        is_long = staged.num_remaining > self._prefill_chunk >= num_remaining
        return has_moved and is_long and not staged.prompt.wants_logprobs

    def _stage(self, sequence: Sequence, source: int, length: int) -> None:
        if self._staged:
            self.slots.keep(self._staged)
            self.waiting.put_back(self._staged)
        self.slots.stage(sequence, source, length)
        self._staged, self._staged_from = sequence, length

    def _next_chunk(self) -> Prefill | None:
        if self._staged is None:
            return None
        return Prefill(self._staged, min(self._staged.num_remaining, self._prefill_chunk))
