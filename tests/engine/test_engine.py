"""The engine over a tiny model: cached = uncached, batched = alone, abort frees the slot."""

import random

import pytest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import ContextOverflow, InvalidRequest
from engine.outputs import RequestOutput
from engine.request import Prompt, Request
from engine.sampling_params import SamplingParams


@pytest.fixture(scope="module")
def make_engine(tiny_model):
    def make(**config):
        settings = {"max_num_seqs": 4, "prefill_chunk": 8, "num_threads": 1} | config
        return Engine(EngineConfig(model=tiny_model.path, provider="cpu", **settings))

    return make


@pytest.fixture
def engine(make_engine):
    return make_engine()


def request(name, ids, **params):
    prompts = ids if isinstance(ids[0], list) else [ids]
    return Request(name, tuple(Prompt(each) for each in prompts), SamplingParams(**params))


def run(engine, *requests, arrivals=None):
    """Run requests, each added before the step that `arrivals` gives it; outputs by id."""
    arrivals = arrivals or [0] * len(requests)
    outputs = {each.request_id: RequestOutput(each.request_id) for each in requests}
    step = 0
    while engine.has_work or step <= max(arrivals):
        for each, at in zip(requests, arrivals, strict=True):
            if at == step:
                engine.check(each)
                engine.add(each)
        for output in engine.step():
            outputs[output.request_id].merge(output)
        step += 1
    return outputs


def texts(output):
    return [output.candidates[key].text for key in sorted(output.candidates)]


def prompts(count):
    dice = random.Random(5)
    return [[dice.randrange(2, 300) for _ in range(dice.randrange(1, 40))] for _ in range(count)]


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_batched_equals_alone(make_engine, temperature):
    requests = [
        request(str(i), ids, max_tokens=12, seed=i, temperature=temperature, ignore_eos=True)
        for i, ids in enumerate(prompts(12))
    ]
    together = run(make_engine(), *requests, arrivals=[i // 2 for i in range(12)])
    for each in requests:
        alone = run(make_engine(prefix_reuse=False), each)[each.request_id]
        assert texts(together[each.request_id]) == texts(alone)


def test_cached_equals_uncached(engine):
    ids = prompts(8)[3] + prompts(3)[2]
    params = {"max_tokens": 6, "temperature": 0, "logprobs": 3}
    first, again = (run(engine, request(n, ids, **params))[n] for n in ("first", "again"))
    assert first.prompts[0].cached_tokens == 0
    assert again.prompts[0].cached_tokens == len(ids) - 2
    assert texts(first) == texts(again)
    values = [[e.logprob for e in o.candidates[0, 0].logprobs] for o in (first, again)]
    assert values[0] == pytest.approx(values[1], abs=1e-4)


def test_candidates_draw_from_one_prefill(engine):
    ids = prompts(2)[1]
    params = {"max_tokens": 5, "seed": 3, "ignore_eos": True}
    many = run(engine, request("many", ids, n=9, **params))["many"]
    assert len(many.candidates) == 9
    assert len(set(texts(many))) > 1
    assert texts(many)[0] == texts(run(engine, request("one", ids, **params))["one"])[0]


def test_one_token_per_candidate_needs_one_slot(make_engine):
    engine = make_engine(max_num_seqs=1)
    output = run(engine, request("a", [5, 6, 7], n=20, max_tokens=1, ignore_eos=True))["a"]
    assert [candidate.finish_reason for candidate in output.candidates.values()] == ["length"] * 20


def test_greedy_candidates_are_equal(engine):
    output = run(engine, request("a", [5, 6, 7], n=3, max_tokens=4, temperature=0))["a"]
    assert len(output.candidates) == 3
    assert len(set(texts(output))) == 1


def test_abort_frees_the_slots(engine):
    engine.add(request("a", prompts(9)[8] * 3, n=3, max_tokens=100, ignore_eos=True))
    for _ in range(20):
        engine.step()
    assert engine.stats().slots_in_use == 3
    engine.abort("a")
    assert engine.stats().slots_in_use == 0
    assert not engine.has_work


def test_prompt_logprobs_do_not_depend_on_the_chunks(make_engine):
    ids = prompts(9)[8] * 2
    scored = [
        run(make_engine(prefill_chunk=chunk), request("a", ids, prompt_logprobs=2, max_tokens=1))
        for chunk in (3, 200)
    ]
    left, right = (output["a"].prompts[0].logprobs for output in scored)
    assert len(left) == len(right) == len(ids)
    assert left[0].logprob is None
    for a, b in zip(left[1:], right[1:], strict=True):
        assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
        assert a.token_id == b.token_id


def test_a_short_prompt_overtakes_a_long_one(make_engine):
    engine = make_engine(prefill_chunk=4)
    long = request("long", [7] * 60, max_tokens=2, temperature=0)
    short = request("short", [9, 8, 7], max_tokens=2, temperature=0)
    engine.add(long)
    engine.step()
    engine.add(short)
    finished = []
    while engine.has_work:
        finished += [output.request_id for output in engine.step() if output.finished]
    assert finished == ["short", "long"]


def test_a_short_prompt_passes_long_ones_that_wait(make_engine):
    engine = make_engine(prefill_chunk=4)
    for name, ids in {"first": [7] * 60, "second": [6] * 60, "short": [9, 8, 7]}.items():
        engine.add(request(name, ids, max_tokens=2, temperature=0))
    finished = []
    while engine.has_work:
        finished += [output.request_id for output in engine.step() if output.finished]
    assert finished == ["short", "first", "second"]


def test_short_prompts_are_computed_together(engine):
    for name, ids in {"a": [7, 7], "b": [9, 8], "c": [6]}.items():
        engine.add(request(name, ids, max_tokens=2, temperature=0))
    assert {output.request_id for output in engine.step()} == {"a", "b", "c"}


def test_stop_string_cuts_the_text(engine):
    params = {"max_tokens": 30, "seed": 1, "ignore_eos": True}
    whole = texts(run(engine, request("a", [5, 6], **params))["a"])[0]
    stop = whole[4:7]
    output = run(engine, request("b", [5, 6], stop=(stop,), **params))["b"]
    assert texts(output) == [whole[: whole.index(stop)]]
    assert output.candidates[0, 0].stop_reason == stop


def test_min_tokens_holds_eos_back(engine):
    params = {"max_tokens": 8, "logit_bias": {1: 100}, "min_tokens": 4}
    candidate = run(engine, request("a", [5], **params))["a"].candidates[0, 0]
    assert (candidate.num_tokens, candidate.finish_reason) == (5, "stop")


@pytest.mark.parametrize(
    "ids, params, param",
    [
        ([300], {}, "prompt"),
        ([-1], {}, "prompt"),
        ([5], {"stop_token_ids": (300,)}, "stop_token_ids"),
        ([5], {"logit_bias": {300: 1}}, "logit_bias"),
    ],
)
def test_ids_out_of_the_vocabulary(engine, ids, params, param):
    with pytest.raises(InvalidRequest) as caught:
        engine.check(request("a", ids, **params))
    assert caught.value.param == param


def test_beyond_the_context(engine):
    engine.check(request("a", [5] * 200, max_tokens=56))
    with pytest.raises(ContextOverflow, match="requested 257 tokens"):
        engine.check(request("a", [5] * 200, max_tokens=57))


def test_nan_ends_its_own_request_only(engine, monkeypatch):
    decode = engine._decoder.decode

    def broken(token_ids, lengths, logits):
        decode(token_ids, lengths, logits)
        if len(token_ids) == 2:
            logits[0] = float("nan")

    monkeypatch.setattr(engine._decoder, "decode", broken)
    outputs = run(
        engine,
        request("a", [5], max_tokens=9, ignore_eos=True),
        request("b", [6], max_tokens=9, ignore_eos=True),
    )
    assert outputs["a"].error
    assert outputs["b"].error is None
    assert outputs["b"].candidates[0, 0].num_tokens == 9
