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


@dataclass(frozen=True, slots=True)
class Batch:
    """One step: a token for each running sequence, and at most one chunk of a prompt."""

    decode: list[Sequence]
    prefill: Prefill | None

    def __bool__(self) -> bool:
        return bool(self.decode or self.prefill)


class Scheduler:
    """Lets waiting sequences into slots and decides what each step computes.

    Prompts are computed in the staging slot, `prefill_chunk` tokens a step, so that a long one
    never stalls the others; generated tokens are computed where the sequence runs. No chunk has a
    single token unless its prompt has: attention for one token sums in another order than for
    several, and 8-bit activations blow the last bit of a sum up to another text. So a prompt's
    values depend neither on its chunks nor on what was reused.
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
            num_missing = sequence.num_prompt_tokens - length
            if num_missing and not self._may_stage(num_missing):
                return
            self.waiting.pop()
            sequence.begin(length)
            if num_missing:
                self._stage(sequence, source, length)
            else:
                self.slots.run(sequence, source, length)

    @property
    def _num_free(self) -> int:
        return self.slots.num_slots - len(self.running())

    def _reusable(self, sequence: Sequence) -> tuple[int, int]:
        """The slot that holds the longest usable prefix, and its length."""
        if not sequence.is_resumed and (not self._prefix_reuse or sequence.prompt.wants_logprobs):
            return self.slots.staging, 0
        prompt = sequence.prompt.tokens
        source, length = self.slots.longest_prefix(prompt)
        num_needed = 0 if sequence.num_generated else 1
        num_missing = max(num_needed, len(prompt) - length)
        return source, len(prompt) - _without_single(num_missing, len(prompt))

    def _may_stage(self, num_missing: int) -> bool:
        """Whether the staging slot is free, or held by a long prompt that a short one overtakes.

        The long one goes on from its kept prefix, after at least one chunk in each of its turns.
        """
        staged = self._staged
        if staged is None:
            return True
        has_moved = staged.num_computed_tokens > self._staged_from
        is_long = staged.num_unprefilled > self._prefill_chunk >= num_missing
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
        num_left = self._staged.num_unprefilled
        rest = _without_single(max(0, num_left - self._prefill_chunk), num_left)
        return Prefill(self._staged, num_left - rest)


def _without_single(num_later: int, num_all: int) -> int:
    """How many of the last tokens to compute later, so that it is never one alone."""
    return min(2, num_all) if num_later == 1 else num_later
