"""What the bookkeeping believes to lie in a slot is what lies there, whatever came before."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.slots import Slots
from tests.engine.fake_model import FakeModel

NUM_SLOTS = 4
PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=6)


class FakeSequence:
    """As much of a sequence as slots look at; its tokens are computed when a test says so."""

    def __init__(self, prompt):
        self.tokens = np.array(prompt, np.int32)
        self.num_prompt_tokens = len(prompt)
        self.num_computed_tokens = 0
        self.slot = -1

    @property
    def prefilled(self):
        return self.tokens[: min(self.num_computed_tokens, self.num_prompt_tokens)]


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.model = FakeModel(NUM_SLOTS + 1)
        self.slots = Slots(self.model)
        self.staged = None

    def compute(self, sequence, count):
        """Let the model append the sequence's next tokens."""
        start = sequence.num_computed_tokens
        chunk = sequence.tokens[start : start + count]
        self.model._append(sequence.slot, start, chunk)
        sequence.num_computed_tokens += len(chunk)

    def num_free(self):
        return NUM_SLOTS - len(self.slots) - (self.staged is not None)

    @precondition(lambda self: self.num_free())
    @rule(prompt=PROMPTS)
    def run_whole(self, prompt):
        """A short prompt is computed where it runs, after what it shares."""
        sequence = FakeSequence(prompt)
        source, length = self.slots.longest_prefix(sequence.tokens)
        longest = max([0, *(self.shared(sequence, content) for content in self.contents())])
        assert length == longest
        self.slots.run(sequence, source, length)
        self.compute(sequence, len(prompt))

    @precondition(lambda self: self.num_free() and not self.staged)
    @rule(prompt=PROMPTS)
    def stage(self, prompt):
        self.staged = FakeSequence(prompt)
        self.slots.stage(self.staged, *self.slots.longest_prefix(self.staged.tokens))

    @precondition(lambda self: self.staged)
    @rule(count=st.integers(1, 3))
    def compute_staged(self, count):
        self.compute(self.staged, count)

    @precondition(lambda self: self.staged)
    @rule()
    def run_staged(self):
        self.slots.run(self.staged, self.slots.staging, self.staged.num_computed_tokens)
        self.staged = None

    @precondition(lambda self: self.staged)
    @rule()
    def keep_staged(self):
        self.slots.keep(self.staged)
        self.staged = None

    @precondition(lambda self: len(self.slots))
    @rule(token=st.integers(0, 1))
    def decode(self, token):
        for sequence in self.slots:
            sequence.tokens = np.append(sequence.tokens, np.int32(token))
            self.compute(sequence, len(sequence.tokens))

    @precondition(lambda self: len(self.slots))
    @rule(data=st.data())
    def remove(self, data):
        sequence = data.draw(st.sampled_from(list(self.slots)))
        has_room = len(self.slots) < NUM_SLOTS or sequence is list(self.slots)[-1]
        self.slots.remove(sequence)
        if has_room:
            prompt = sequence.prefilled
            assert self.slots.longest_prefix(prompt)[1] == len(prompt)

    @invariant()
    def memory_is_as_believed(self):
        self.model.check(self.slots)
        assert [sequence.slot for sequence in self.slots] == list(range(len(self.slots)))
        if self.staged:
            size = self.staged.num_computed_tokens
            staging = self.model.memory[self.slots.staging]
            assert staging[:size] == self.staged.tokens[:size].tolist()

    def contents(self):
        return self.slots._contents()

    def shared(self, sequence, content):
        """The slow way to the length of a common prefix."""
        sizes = range(min(len(content), len(sequence.tokens)), 0, -1)
        same = (size for size in sizes if (content[:size] == sequence.tokens[:size]).all())
        return next(same, 0)


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestSlots = Machine.TestCase


def test_the_oldest_prefix_goes_first():
    model = FakeModel(NUM_SLOTS + 1)
    slots = Slots(model)

    def serve(*prompt):
        sequence = FakeSequence(prompt)
        source, length = slots.longest_prefix(sequence.tokens)
        slots.run(sequence, source, length)
        model._append(sequence.slot, length, sequence.tokens[length:])
        sequence.num_computed_tokens = len(prompt)
        slots.remove(sequence)
        return length

    for first in range(NUM_SLOTS):
        assert serve(first, 9, 9) == 0
    assert serve(0, 9, 9) == 3  # used again, so the prompt of 1 is the oldest now
    assert serve(5, 9, 9) == 0
    assert serve(0, 9, 9) == 3
    assert serve(1, 9, 9) == 0
