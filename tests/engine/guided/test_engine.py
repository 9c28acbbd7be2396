"""The engine under constraints, over a tiny model whose tokens are as good as random."""

import asyncio
import json
import re
import threading
from dataclasses import replace

import pytest

from engine.async_engine import AsyncEngine
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.guided.backend import Grammar
from engine.guided.compiler import GrammarCompiler
from engine.outputs import RequestOutput
from engine.request import Prompt, Request
from engine.sampling_params import GuidedParams, SamplingParams

EOS = 1


@pytest.fixture(scope="module")
def config(tiny_model):
    return EngineConfig(model=tiny_model.path, provider="cpu", max_num_seqs=4, num_threads=1)


@pytest.fixture(scope="module")
def engine(config):
    return Engine(config)


@pytest.fixture(scope="module")
def compiler(engine):
    compiler = GrammarCompiler(engine.tokenizer)
    yield compiler
    compiler.close()


def request(name, guided=None, prompts=((5, 6, 7),), **params):
    params = {"max_tokens": 60, "seed": 1, "guided": guided} | params
    return Request(name, tuple(map(Prompt, prompts)), SamplingParams(**params))


@pytest.fixture
def run(engine, compiler):
    """Run requests together; their outputs, in order."""

    def run(*requests):
        outputs = {each.request_id: RequestOutput(each.request_id) for each in requests}
        for each in requests:
            guided = each.params.guided
            engine.add(each, compiler.compile(guided).result(60) if guided else None)
        while engine.has_work:
            for output in engine.step():
                outputs[output.request_id].merge(output)
        return list(outputs.values())

    return run


@pytest.fixture
def candidates(run):
    """Run one request alone; its candidates."""

    def candidates(guided, **params):
        (output,) = run(request("a", guided, **params))
        assert output.error is None
        return [output.candidates[key] for key in sorted(output.candidates)]

    return candidates


def regex(pattern, **fields):
    return GuidedParams("regex", pattern, **fields)


def choice(*items):
    return GuidedParams("choice", json.dumps(items))


@pytest.mark.parametrize("backend", ["llguidance", "outlines", "lm-format-enforcer"])
@pytest.mark.parametrize("params", [{"n": 9}, {"best_of": 6, "n": 2}, {"temperature": 0, "n": 2}])
def test_every_candidate_of_every_prompt_matches(candidates, backend, params):
    found = candidates(
        regex("[a-f]{2,4}-[0-9]", backend=backend), prompts=([5, 6], [7], [8, 9, 10]), **params
    )
    assert len(found) == 3 * max(params.get("best_of", 0), params["n"])
    for candidate in found:
        assert re.fullmatch("[a-f]{2,4}-[0-9]", candidate.text)
        assert (candidate.finish_reason, candidate.stop_reason) == ("stop", None)
    assert len({candidate.text for candidate in found}) > 1


def test_free_and_guided_neighbours_do_not_change_each_other(run):
    requests = [
        request("digits", regex("[0-9]{8}")),
        request("free", max_tokens=12, ignore_eos=True),
        request("letters", regex("[a-z]{8}", backend="outlines")),
    ]
    alone = [run(each)[0] for each in requests]
    for single, together in zip(alone, run(*requests), strict=True):
        assert single.candidates[0, 0].text == together.candidates[0, 0].text


def test_a_finished_constraint_ends_at_once_whatever_else_is_asked(candidates):
    for params in ({}, {"min_tokens": 40}, {"ignore_eos": True}, {"max_tokens": 1}):
        (candidate,) = candidates(regex("[xyz]"), **params)
        assert (candidate.num_tokens, candidate.finish_reason) == (1, "stop")


def test_eos_competes_where_the_text_may_end(candidates):
    (ended,) = candidates(regex("[xyz]+"), logit_bias={EOS: 100}, logprobs=0)
    assert (len(ended.text), ended.num_tokens, ended.finish_reason) == (1, 2, "stop")
    assert ended.logprobs[-1].token_id == EOS
    (cut,) = candidates(regex("[xyz]+"), logit_bias={EOS: -100}, max_tokens=5)
    assert (cut.num_tokens, cut.finish_reason) == (5, "length")
    assert re.fullmatch("[xyz]+", cut.text)


def test_eos_is_no_text_even_if_it_is_ignored_or_too_early(candidates):
    bias = {EOS: 100}
    (ignored,) = candidates(regex("[xyz]{1,6}"), logit_bias=bias, ignore_eos=True)
    assert re.fullmatch("[xyz]{6}", ignored.text)
    (later,) = candidates(regex("[xyz]{1,6}"), logit_bias=bias, min_tokens=3)
    assert re.fullmatch("[xyz]{3}", later.text)
    assert ignored.finish_reason == later.finish_reason == "stop"


def test_no_allowed_token_is_a_stop(candidates, engine):
    (x,) = engine.tokenizer.encode("x", add_special_tokens=False)
    (candidate,) = candidates(regex("a?x{9}"), min_tokens=9, stop_token_ids=(x,))
    assert candidate.finish_reason == "stop"
    assert candidate.text in ("", "a")


def test_a_stop_string_is_found_in_guided_text(candidates):
    (candidate,) = candidates(regex("abc[0-9]"), stop=("c",))
    assert (candidate.text, candidate.stop_reason) == ("ab", "c")


def test_logprobs_are_those_of_the_model(candidates):
    (free,) = candidates(None, max_tokens=1, logprobs=5)
    best = free.logprobs[0].top
    (guided,) = candidates(choice("q"), logprobs=5)
    assert guided.logprobs[0].top == best
    assert guided.logprobs[0].logprob <= best[0].logprob


class Stuck(Grammar):
    """Allows everything once, and then nothing."""

    can_end = is_finished = False

    def __init__(self):
        self.count = 0

    def fill_bitmask(self, bitmask, row):
        bitmask[row] = -1 if self.count == 0 else 0

    def accept(self, token_id):
        self.count += 1
        return self.count <= 2

    def rollback(self, num_tokens):
        self.count -= num_tokens


class StuckEverywhere:
    start = staticmethod(Stuck)


def test_a_backend_that_is_stuck_fails_its_own_request(engine):
    outputs = {name: RequestOutput(name) for name in ("stuck", "free")}
    engine.add(request("stuck", regex("x"), ignore_eos=True, n=2), StuckEverywhere)
    engine.add(request("free", ignore_eos=True, max_tokens=9))
    while engine.has_work:
        for output in engine.step():
            outputs[output.request_id].merge(output)
    assert "constraint" in outputs["stuck"].error
    assert outputs["free"].error is None
    assert outputs["free"].candidates[0, 0].num_tokens == 9
    assert engine.stats().slots_in_use == 0


class SlowBackend:
    """Compiles when its gate opens."""

    kinds = frozenset(("regex",))
    gate = threading.Event()

    def __init__(self, vocabulary):
        pass

    def compile(self, params):
        assert self.gate.wait(30)
        return StuckEverywhere


async def read(stream):
    total = RequestOutput(stream.request.request_id)
    async for output in stream:
        total.merge(output)
    return total


async def test_compilation_holds_nobody_up_and_a_fault_is_the_requests_own(config):
    config = replace(config, guided_backends={"slow": f"{__name__}.SlowBackend"})
    engine = AsyncEngine(config)
    engine.start()
    try:
        await asyncio.to_thread(engine.wait_until_ready)
        slow = asyncio.create_task(engine.generate(request("slow", regex("x", backend="slow"))))
        guided = await read(await engine.generate(request("guided", choice("yes", "no"))))
        assert guided.candidates[0, 0].text in ("yes", "no")
        with pytest.raises(InvalidRequest) as refusal:
            await engine.generate(request("bad", regex("(")))
        assert refusal.value.param == "guided_regex"
        assert not slow.done()
        slow.cancel()
        SlowBackend.gate.set()
    finally:
        await asyncio.to_thread(engine.stop)
