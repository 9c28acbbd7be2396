"""Who runs in the next step, and in which slots."""

from dataclasses import dataclass

from engine.sequence import RequestState, Sequence
from engine.slots import Slots
from engine.waiting import WaitingQueue

_LOOK_AHEAD = 8
"""How many waiting requests are looked at when those before them can't be let in."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """The next `size` tokens of a sequence's prompt."""

    sequence: Sequence
    size: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One step: a token for each sequence in `decode` (slots 0, 1, ...), and chunks of prompts.

    There is one chunk, or the chunks are whole prompts in consecutive slots.
    """

    decode: list[Sequence]
    prefill: list[Prefill]

    def __bool__(self) -> bool:
        return bool(self.decode or self.prefill)


class Scheduler:
    """Lets waiting sequences into slots and decides what each step computes.

    Of prompts a step computes `prefill_chunk` tokens, padding included, so that they never stall
    the running sequences. A short prompt is computed in one step where its sequence will run,
    together with others that are as short. A long one is computed chunk by chunk in the staging
    slot, in turns with short ones. Generated tokens are computed where the sequence runs.

    No chunk has a single token unless its prompt has: attention for one token sums in another order
    than for several, and 8-bit activations blow the last bit of a sum up to another text. So a
    prompt's values depend neither on its chunks nor on what was reused.
    """

    def __init__(self, slots: Slots, prefill_chunk: int, *, prefix_reuse: bool = True) -> None:
        self.slots = slots
        self.waiting = WaitingQueue()
        self._prefill_chunk = prefill_chunk
        self._prefix_reuse = prefix_reuse
        self._staged: Sequence | None = None
        self._may_join = True

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
        joining = self._admit()
        self._may_join = not (joining and self._staged)
        decode = list(self.slots)[: len(self.slots) - len(joining)]
        if joining or not self._staged:
            return Batch(decode, [Prefill(each, each.num_unprefilled) for each in joining])
        return Batch(decode, [Prefill(self._staged, self._next_chunk(self._staged))])

    def complete_prefill(self, sequence: Sequence) -> None:
        """Let a sequence run whose prompt is computed, if it doesn't already."""
        if sequence is self._staged:
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

    def _admit(self) -> list[Sequence]:
        """Give out slots; the sequences whose prompts this step computes in theirs."""
        joining: list[Sequence] = []
        turn = 0
        while turn < min(self.waiting.num_requests, _LOOK_AHEAD) and self._num_free:
            sequence = self.waiting.peek(turn)
            source, length = self._reusable(sequence)
            num_missing = sequence.num_prompt_tokens - length
            is_long = num_missing > self._prefill_chunk
            if is_long and not self._staged:
                self._staged = self._begin(turn, length)
                self.slots.stage(sequence, source, length)
            elif not is_long and self._fits(joining, num_missing, length):
                self.slots.run(self._begin(turn, length), source, length)
                joining += [sequence] if num_missing else []
            else:
                turn += 1
        return joining

    def _begin(self, turn: int, num_reused: int) -> Sequence:
        sequence = self.waiting.pop(turn)
        sequence.begin(num_reused)
        return sequence

    @property
    def _num_free(self) -> int:
        return self.slots.num_slots - len(self.running())

    def _fits(self, joining: list[Sequence], num_missing: int, length: int) -> bool:
        """Whether a sequence can get the slot behind those whose prompts are to be computed.

        Behind them there is no place for one that decodes, and with reused tokens a prompt is
        computed alone.
        """
        if not joining:
            return self._may_join or not num_missing
        if not num_missing or length or joining[0].num_computed_tokens:
            return False
        longest = max(num_missing, *(each.num_unprefilled for each in joining))
        return longest * (len(joining) + 1) <= self._prefill_chunk

    def _reusable(self, sequence: Sequence) -> tuple[int, int]:
        """The slot that holds the longest usable prefix, and its length."""
        is_drawn = bool(sequence.num_generated)
        if not is_drawn and (not self._prefix_reuse or sequence.prompt.wants_logprobs):
            return self.slots.staging, 0
        prompt = sequence.prompt.tokens
        source, length = self.slots.longest_prefix(prompt)
        num_missing = max(0 if is_drawn else 1, len(prompt) - length)
        return source, len(prompt) - _without_single(num_missing, len(prompt))

    def _next_chunk(self, staged: Sequence) -> int:
        num_left = staged.num_unprefilled
        return num_left - _without_single(max(0, num_left - self._prefill_chunk), num_left)


def _without_single(num_later: int, num_all: int) -> int:
    """How many of the last tokens to compute later, so that it is never one alone."""
    return min(2, num_all) if num_later == 1 else num_later
