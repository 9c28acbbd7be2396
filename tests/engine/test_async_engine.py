"""The engine behind its thread: mailboxes, admission, aborts, faults and the end."""

import asyncio
import threading

import pytest

from engine.async_engine import AsyncEngine, RequestStream
from engine.config import EngineConfig
from engine.errors import EngineUnavailable, GenerationFailed, InvalidRequest, QueueFull
from engine.outputs import CandidateOutput, PromptOutput, RequestOutput, Timings, TokenLogprob
from tests.engine.jobs import gains, request, run
from tests.engine.jobs import make_engine as make_plain_engine

LONG = {"max_tokens": 200, "ignore_eos": True}


@pytest.fixture(scope="module")
def start_engine(tiny_model):
    started = []

    def make(**settings):
        defaults = {"max_num_seqs": 4, "prefill_chunk": 8, "num_threads": 1, "provider": "cpu"}
        engine = AsyncEngine(EngineConfig(model=tiny_model.path, **(defaults | settings)))
        engine.start()
        engine.wait_until_ready(60)
        started.append(engine)
        return engine

    yield make
    for engine in started:
        engine.stop()


@pytest.fixture(scope="module")
def shared(start_engine):
    """An engine for tests that leave it as it was."""
    return start_engine()


class Gate:
    """Holds the engine's thread before each step until it is told how many it may compute."""

    def __init__(self, engine, monkeypatch):
        self._permits = threading.Semaphore(0)
        self._step = engine._engine.step
        self.fault = None
        self.num_steps = 0
        monkeypatch.setattr(engine._engine, "step", self._guarded)

    def _guarded(self):
        self._permits.acquire()
        if self.fault:
            fault, self.fault = self.fault, None
            raise fault
        self.num_steps += 1
        return self._step()

    def open(self, count=10_000):
        self._permits.release(count)


@pytest.fixture
def gated(start_engine, monkeypatch):
    """A fresh engine and its gate, which opens at the end."""
    engine = start_engine()
    gate = Gate(engine, monkeypatch)
    yield engine, gate
    gate.open()


async def read(stream):
    """All outputs of a stream, merged."""
    whole = RequestOutput(stream.request.request_id)
    async for output in stream:
        whole.merge(output)
    return whole


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)


async def test_streams_give_what_the_plain_engine_gives(tiny_model, shared):
    requests = [
        request(f"r{i}", [5 + i] * (3 * i + 1), n=1 + i % 3, seed=i, max_tokens=9, logprobs=1)
        for i in range(7)
    ]
    streams = [await shared.generate(each) for each in requests]
    outputs = await asyncio.gather(*map(read, streams))
    expected = run(make_plain_engine(tiny_model), *requests)
    for each in outputs:
        assert gains(each) == gains(expected[each.request_id])
        assert each.timings
    await until(lambda: shared.stats().slots_in_use == 0)


async def test_a_slow_reader_loses_nothing(tiny_model, gated):
    engine, gate = gated
    asked = request("slow", [5, 6, 7], n=3, seed=1, max_tokens=20, logprobs=2, ignore_eos=True)
    stream = await engine.generate(asked)
    gate.open()
    await until(lambda: engine.stats().generation_tokens_total == 60)
    await until(lambda: not engine._streams)
    await asyncio.sleep(0)
    outputs = [output async for output in stream]
    assert len(outputs) == 1
    assert gains(outputs[0]) == gains(run(make_plain_engine(tiny_model), asked)["slow"])


def part(text, count, reason=None):
    entry = TokenLogprob(count, text, -1.0, 0)
    return CandidateOutput(0, 0, text, count, [entry], -float(count), reason)


async def test_mailbox_holds_one_merged_output():
    stream = RequestStream(request("a", [5]), lambda _: None)
    first = RequestOutput("a", [PromptOutput(0, 1)])
    first.add(part("x", 1))
    second, last = RequestOutput("a"), RequestOutput("a", timings=Timings(1, 2, 3))
    second.add(part("y", 2))
    last.add(part("z", 3, "length"))
    stream.put(first)
    assert (await anext(stream)).candidates[0, 0].text == "x"
    stream.put(second)
    stream.put(last)
    merged = (await anext(stream)).candidates[0, 0]
    assert (merged.text, merged.num_tokens, merged.finish_reason) == ("yz", 3, "length")
    assert [entry.token_id for entry in merged.logprobs] == [2, 3]
    assert merged.cumulative_logprob == -3
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_an_impatient_reader_loses_nothing(gated):
    """A wait that is given up leaves the output where it is."""
    engine, gate = gated
    stream = await engine.generate(request("a", [5], max_tokens=1, ignore_eos=True))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(stream)
    gate.open()
    assert (await read(stream)).candidates[0, 0].num_tokens == 1


async def test_abort_frees_the_slots_at_the_next_step(gated):
    engine, gate = gated
    stream = await engine.generate(request("a", [5, 6, 7], n=3, **LONG))
    gate.open(5)
    await until(lambda: gate.num_steps == 5)
    assert engine.stats().slots_in_use == 3
    stream.abort()
    gate.open(1)
    await until(lambda: engine.stats().slots_in_use == 0)
    assert gate.num_steps <= 6
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_abort_before_the_first_step(gated):
    engine, gate = gated
    stream = await engine.generate(request("a", [5], **LONG))
    stream.abort()
    other = await engine.generate(request("b", [6], max_tokens=2, ignore_eos=True))
    gate.open()
    assert (await read(other)).candidates[0, 0].num_tokens == 2
    assert engine.stats().slots_in_use == 0


async def test_abort_after_the_end_does_nothing(shared):
    stream = await shared.generate(request("a", [5], max_tokens=1))
    await read(stream)
    stream.abort()
    await read(await shared.generate(request("b", [5], max_tokens=1)))


@pytest.mark.parametrize(
    "limits, prompts, message",
    [
        ({"max_waiting_requests": 2}, [[5], [6], [7]], "requests"),
        ({"max_waiting_tokens": 10}, [[5] * 4, [6] * 6, [7]], "tokens"),
    ],
)
async def test_queue_full(start_engine, monkeypatch, limits, prompts, message):
    engine = start_engine(**limits)
    gate = Gate(engine, monkeypatch)
    requests = [request(str(i), each, max_tokens=2) for i, each in enumerate(prompts)]
    streams = [await engine.generate(each) for each in requests[:2]]
    with pytest.raises(QueueFull, match=message):
        await engine.generate(requests[2])
    gate.open()
    await asyncio.gather(*map(read, streams))
    await read(await engine.generate(requests[2]))


async def test_an_aborted_request_makes_room(start_engine, monkeypatch):
    engine = start_engine(max_waiting_requests=1)
    gate = Gate(engine, monkeypatch)
    (await engine.generate(request("a", [5], max_tokens=2))).abort()
    stream = await engine.generate(request("b", [5], max_tokens=2))
    gate.open()
    await read(stream)


async def test_one_request_may_be_larger_than_the_queue(start_engine):
    engine = start_engine(max_waiting_tokens=3)
    await read(await engine.generate(request("a", [5] * 20, max_tokens=1)))


async def test_a_fault_ends_the_requests_that_run_and_no_other(gated):
    engine, gate = gated
    runs = [await engine.generate(request(str(i), [5 + i], **LONG)) for i in range(4)]
    gate.open(6)
    await until(lambda: gate.num_steps == 6)
    waits = await engine.generate(request("waits", [9], max_tokens=3, ignore_eos=True))
    gate.fault = RuntimeError("a fault in the step")
    gate.open()
    for stream in runs:
        with pytest.raises(GenerationFailed):
            await read(stream)
    assert (await read(waits)).candidates[0, 0].num_tokens == 3
    assert engine.state == "ready"


async def test_a_fault_outside_the_step_does_not_end_the_thread(shared, monkeypatch):
    def broken(request_id):
        monkeypatch.undo()
        raise RuntimeError("a fault in abort")

    monkeypatch.setattr(shared._engine, "abort", broken)
    shared.abort("any")
    await until(lambda: shared._engine.abort is not broken and shared.state == "ready")
    assert (await read(await shared.generate(request("a", [5])))).finished


async def test_an_engine_that_does_not_come_back_says_so(start_engine, monkeypatch):
    monkeypatch.setattr("engine.async_engine._RECOVERY_SECONDS", 0)
    engine = start_engine()
    states = []

    def broken():
        states.append(engine.state)
        raise RuntimeError("a fault in every step")

    monkeypatch.setattr(engine._engine, "step", broken)
    stream = await engine.generate(request("a", [5]))
    with pytest.raises(GenerationFailed):
        await read(stream)
    await until(lambda: engine.state == "failed")
    assert states == ["ready", "loading", "loading", "loading"]
    with pytest.raises(EngineUnavailable, match="failed"):
        await engine.generate(request("b", [5]))
    await engine.drain(1)
    assert engine.state == "failed"


async def test_many_candidates_do_not_starve_a_single_request(gated):
    """A request waits for one candidate of a large one, not for all 128."""
    engine, gate = gated
    large = await engine.generate(request("large", [5], n=128, max_tokens=4, ignore_eos=True))
    gate.open(3)
    await until(lambda: gate.num_steps == 3)
    single = await engine.generate(request("single", [6], max_tokens=4, ignore_eos=True))
    gate.open()
    assert (await read(single)).finished
    assert gate.num_steps < 128 * 4 / 4 / 2
    large.abort()


async def test_a_request_that_can_not_be_taken_in_fails_alone(shared, monkeypatch):
    add = shared._engine.add

    def broken(asked, grammar):
        if asked.request_id == "bad":
            raise RuntimeError("a fault in add")
        add(asked, grammar)

    monkeypatch.setattr(shared._engine, "add", broken)
    good, bad = [await shared.generate(request(name, [5])) for name in ("good", "bad")]
    with pytest.raises(GenerationFailed):
        await read(bad)
    assert (await read(good)).finished


def test_readers_on_several_loops(shared):
    results = {}

    async def ask(name):
        results[name] = await read(await shared.generate(request(name, [5], seed=3)))

    threads = [threading.Thread(target=lambda n=n: asyncio.run(ask(n))) for n in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len({results[name].candidates[0, 0].text for name in "abc"}) == 1


def test_a_closed_loop_does_not_harm_the_others(shared):
    async def leave():
        await shared.generate(request("gone", [5], **LONG))

    async def stay():
        return await read(await shared.generate(request("stays", [6], max_tokens=30)))

    asyncio.run(leave())
    assert asyncio.run(stay()).finished
    shared.abort("gone")


async def test_drain_waits_for_the_running_and_refuses_the_new(start_engine, monkeypatch):
    engine = start_engine()
    gate = Gate(engine, monkeypatch)
    stream = await engine.generate(request("a", [5], max_tokens=5, ignore_eos=True))
    draining = asyncio.create_task(engine.drain(20))
    await until(lambda: engine.state == "draining")
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await engine.generate(request("b", [5]))
    assert not draining.done()
    gate.open()
    assert (await read(stream)).candidates[0, 0].num_tokens == 5
    await draining


async def test_drain_gives_up_in_time_and_stop_ends_what_still_runs(start_engine, monkeypatch):
    engine = start_engine()
    gate = Gate(engine, monkeypatch)
    running = await engine.generate(request("a", [5], **LONG))
    gate.open(3)
    await until(lambda: gate.num_steps == 3)
    waiting = await engine.generate(request("b", [6], **LONG))
    await engine.drain(0.01)
    gate.open()
    await asyncio.to_thread(engine.stop)
    for stream in (running, waiting):
        with pytest.raises(GenerationFailed, match="shutting down"):
            await read(stream)
    with pytest.raises(EngineUnavailable):
        await engine.generate(request("c", [5]))


async def test_before_and_while_it_loads(tiny_model, monkeypatch):
    loading, go_on = threading.Event(), threading.Event()

    def slow_warm_up(self, *_):
        loading.set()
        go_on.wait(20)

    monkeypatch.setattr("engine.async_engine.Engine.warm_up", slow_warm_up)
    engine = AsyncEngine(EngineConfig(tiny_model.path, provider="cpu"))
    assert (engine.state, engine.stats().num_slots) == ("new", 0)
    with pytest.raises(EngineUnavailable, match="not loaded"):
        engine.check(request("a", [5]))
    engine.start()
    loading.wait(20)
    with pytest.raises(EngineUnavailable, match="loading"):
        engine.wait_until_ready(0.01)
    with pytest.raises(EngineUnavailable, match="loading"):
        await engine.generate(request("a", [5]))
    go_on.set()
    engine.wait_until_ready(20)
    assert engine.state == "ready"
    engine.stop()
    engine.stop()
    assert engine.state == "stopped"


def test_a_model_that_can_not_be_loaded(tmp_path):
    engine = AsyncEngine(EngineConfig(tmp_path, provider="cpu"))
    engine.start()
    with pytest.raises(EngineUnavailable, match="holds no prepared model"):
        engine.wait_until_ready(20)
    assert engine.state == "failed"
    engine.stop()


def test_check(shared):
    shared.check(request("a", [5]))
    with pytest.raises(InvalidRequest):
        shared.check(request("a", [300]))
