"""Requests come, run and go in any order: each gets exactly what it would get alone."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.outputs import RequestOutput
from tests.engine import fake_model
from tests.engine.jobs import make_engine, request

SLOTS, CHUNK = 4, 8
STEM = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]

PROMPTS = st.builds(
    lambda size, tail: STEM[:size] + tail,
    st.integers(0, len(STEM)),
    st.lists(st.integers(2, 20), min_size=1, max_size=16),
)
PARAMS = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(1, 7),
        "seed": st.integers(0, 3),
        "n": st.integers(1, 6),
        "temperature": st.sampled_from([0, 0.7, 1.0]),
        "ignore_eos": st.booleans(),
    },
    optional={
        "stop": st.sampled_from([("e",), ("th", "\ufffd")]),
        "stop_token_ids": st.just(tuple(range(100, 140))),
        "min_tokens": st.just(2),
        "logprobs": st.integers(0, 2),
        "prompt_logprobs": st.integers(0, 2),
        "repetition_penalty": st.just(1.3),
        "frequency_penalty": st.just(0.5),
    },
)


@pytest.fixture(scope="module")
def engines(tiny_model):
    """Two engines, which the machine resets: for all requests together, and for one alone."""
    shape = {"max_num_seqs": SLOTS, "prefill_chunk": CHUNK}
    return make_engine(tiny_model, **shape), make_engine(tiny_model, **shape, prefix_reuse=False)


def test_any_interleaving(engines):
    class Machine(Interleavings):
        together, alone = engines

    Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
    Machine.TestCase().runTest()


class Interleavings(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.model = fake_model.install(self.together)
        self.outputs = {}
        self.live = {}

    @rule(prompts=st.lists(PROMPTS, min_size=1, max_size=3), params=PARAMS)
    def add(self, prompts, params):
        params["min_tokens"] = min(params.get("min_tokens", 0), params["max_tokens"])
        name = str(len(self.outputs))
        self.live[name] = request(name, prompts, **params)
        self.outputs[name] = RequestOutput(name)
        self.together.check(self.live[name])
        self.together.add(self.live[name])

    @rule(data=st.data())
    def abort(self, data):
        name = data.draw(st.sampled_from([*self.live, "unknown"]))
        self.together.abort(name)
        self.live.pop(name, None)
        owners = {each.owner.request.request_id for each in self.together._scheduler.running()}
        assert name not in owners

    @rule(count=st.integers(1, 6))
    def step(self, count):
        for _ in range(count):
            assert self.together.has_work == bool(self.live)
            outputs = self.together.step()
            assert bool(outputs) <= bool(self.live)
            names = [output.request_id for output in outputs]
            assert len(names) == len(set(names))
            for output in outputs:
                assert output.request_id in self.live
                self.outputs[output.request_id].merge(output)
                if output.finished:
                    self.compare(self.live.pop(output.request_id))
            self.model.check(self.together._scheduler.slots)

    @invariant()
    def slots(self):
        stats = self.together.stats()
        running = self.together._scheduler.running()
        assert stats.slots_in_use == len(running) <= SLOTS
        assert stats.running <= len(self.live)
        assert 0 <= stats.cache_usage <= 1
        for slot, sequence in enumerate(self.together._scheduler.slots):
            assert sequence.slot == slot
        assert {each.owner.request.request_id for each in running} <= set(self.live)

    def compare(self, each):
        fake_model.install(self.alone)
        self.alone.add(each)
        expected = RequestOutput(each.request_id)
        while self.alone.has_work:
            for output in self.alone.step():
                expected.merge(output)
        got = self.outputs[each.request_id]
        assert got.candidates == expected.candidates
        assert len(got.candidates) == len(each.prompts) * each.params.n
        for left, right in zip(by_index(got), by_index(expected), strict=True):
            assert (left.num_tokens, left.logprobs) == (right.num_tokens, right.logprobs)
            assert left.cached_tokens < left.num_tokens
        assert got.timings
        assert got.timings.queued >= 0 <= got.timings.decode

    def teardown(self):
        while self.together.has_work:
            self.step(1)

        assert not self.live
        assert not self.together._states
        assert self.together.stats().waiting == 0


def by_index(output):
    """What became of the prompts, in their order."""
    return sorted(output.prompts, key=lambda each: each.index)
