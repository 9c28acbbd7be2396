import asyncio
import threading
from concurrent.futures import wait
from dataclasses import dataclass
from typing import ClassVar

import pytest

from engine.errors import EngineUnavailable, InvalidRequest, QueueFull
from engine.guided import compiler as compiler_module
from engine.guided.backend import ConstraintError
from engine.guided.compiler import GrammarCompiler
from engine.sampling_params import GuidedParams
from tests.engine.guided.follow import matches


class GatedBackend:
    """Compiles regexes when its gate is open; counts how often."""

    kinds = frozenset(("regex",))
    gate = threading.Event()
    sources: ClassVar[list[str]] = []

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def compile(self, params):
        assert self.gate.wait(30)
        self.sources.append(params.source)
        if params.source == "bad":
            raise ConstraintError("it is bad")
        if params.source == "broken":
            raise RuntimeError("a fault of the backend")
        return Compiled(params.source)


@dataclass
class Compiled:
    source: str
    is_used_up: bool = False


@pytest.fixture
def gated(vocabulary):
    GatedBackend.gate = threading.Event()
    GatedBackend.sources = []
    path = f"{GatedBackend.__module__}.GatedBackend"
    compiler = GrammarCompiler(vocabulary, backends={"gated": path}, default="gated", cache_size=2)
    yield compiler
    GatedBackend.gate.set()
    compiler.close()


def test_equal_constraints_are_compiled_once(gated):
    first = gated.compile(GuidedParams("regex", "a"))
    second = gated.compile(GuidedParams("regex", "a", backend="gated"))
    assert not first.done()
    GatedBackend.gate.set()
    assert first.result(30) is second.result(30)
    assert gated.compile(GuidedParams("regex", "a")).result(0) is first.result(0)
    assert GatedBackend.sources == ["a"]


def test_what_is_used_up_is_compiled_again(gated):
    GatedBackend.gate.set()
    first = gated.compile(GuidedParams("regex", "a")).result(30)
    first.is_used_up = True
    second = gated.compile(GuidedParams("regex", "a")).result(30)
    assert second == Compiled("a")
    assert second is not first


def test_the_constraints_used_last_are_kept(gated):
    GatedBackend.gate.set()
    for source in "abaca":
        gated.compile(GuidedParams("regex", source)).result(30)
    assert GatedBackend.sources == ["a", "b", "c"]
    gated.compile(GuidedParams("regex", "b")).result(30)
    assert GatedBackend.sources == ["a", "b", "c", "b"]


def test_failures_are_told_and_not_kept(gated):
    GatedBackend.gate.set()
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="response_format: it is bad") as refusal:
            gated.compile(GuidedParams("regex", "bad", field="response_format")).result(30)
        assert refusal.value.param == "response_format"
    assert GatedBackend.sources == ["bad", "bad"]
    with pytest.raises(RuntimeError, match="a fault of the backend"):
        gated.compile(GuidedParams("regex", "broken")).result(30)


def test_one_waiter_that_gives_up_does_not_take_the_others_result(gated):
    async def two_waiters():
        first = asyncio.wrap_future(gated.compile(GuidedParams("regex", "a")))
        second = asyncio.wrap_future(gated.compile(GuidedParams("regex", "a")))
        first.cancel()
        await asyncio.sleep(0)
        GatedBackend.gate.set()
        return await second

    assert asyncio.run(two_waiters()) == Compiled("a")


def test_closing_ends_the_wait(gated):
    running, waiting = (gated.compile(GuidedParams("regex", source)) for source in "ab")
    gated.close()
    for future in (running, waiting):
        with pytest.raises(EngineUnavailable):
            future.result(0)


def test_closing_ends_the_wait_also_of_what_left_the_cache(gated):
    waiting = [gated.compile(GuidedParams("regex", source)) for source in "abcd"]  # the cache has 2
    gated.close()
    for future in waiting:
        with pytest.raises(EngineUnavailable):
            future.result(0)


def test_what_waits_is_bounded_and_the_place_is_free_again(gated, monkeypatch):
    monkeypatch.setattr(compiler_module, "MAX_PENDING", 3)
    pending = [gated.compile(GuidedParams("regex", source)) for source in ("a", "b", "bad")]
    with pytest.raises(QueueFull, match="Too many constraints"):
        gated.compile(GuidedParams("regex", "c"))
    assert gated.compile(GuidedParams("regex", "b")) is pending[1]  # it waits already
    GatedBackend.gate.set()
    wait(pending)
    assert gated.compile(GuidedParams("regex", "c")).result(30) == Compiled("c")


def test_a_slow_backend_keeps_no_other_waiting(gated, vocabulary):
    slow = [gated.compile(GuidedParams("regex", f"slow {i}")) for i in range(4)]
    quick = gated.compile(GuidedParams("regex", "no", backend="llguidance")).result(60)
    assert matches(quick, vocabulary, "no")
    assert not any(future.done() for future in slow)


def test_an_unknown_backend_is_refused_by_name(compiler):
    with pytest.raises(InvalidRequest, match="no-such") as refusal:
        compiler.compile(GuidedParams("regex", "a", backend="no-such"))
    assert refusal.value.param == "guided_decoding_backend"
    assert "lm-format-enforcer, outlines" in refusal.value.message


def test_a_kind_that_a_backend_lacks_is_refused_and_says_which_have_it(gated):
    with pytest.raises(InvalidRequest, match="gated can't do guided_json") as refusal:
        gated.compile(GuidedParams("json", "{}"))
    assert refusal.value.param == "guided_decoding_backend"
    assert "llguidance" in refusal.value.message


def test_a_bad_path_of_a_custom_backend_is_an_error_at_once(vocabulary):
    with pytest.raises(ImportError):
        GrammarCompiler(vocabulary, backends={"mine": "no_such_module.Backend"})


def test_a_long_source_is_refused_unread(compiler, monkeypatch):
    monkeypatch.setattr(compiler_module, "MAX_SOURCE_CHARS", 10)
    with pytest.raises(InvalidRequest, match="guided_regex: longer than 10 characters"):
        compiler.compile(GuidedParams("regex", "a" * 11))


def chain(length):
    rules = "".join(f'a{i}: "x" a{i + 1} | "y"\n' for i in range(length))
    return f'start: a0\n{rules}a{length}: "z"\n'


EXPLOSION = "start: A\nA: " + " & ".join(rf"/(.|\n)*a{i}(.|\n)*/" for i in range(30))


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("grammar", chain(20_000)),
        ("grammar", EXPLOSION),
        ("regex", "a" * 900_000),
    ],
    ids=["a deep chain of rules", "exponential states", "a long text"],
)
def test_what_is_out_of_bounds_is_refused_and_the_next_is_served(
    compiled, vocabulary, monkeypatch, kind, source
):
    with pytest.raises(InvalidRequest) as refusal:
        compiled(kind, source)
    assert refusal.value.param == f"guided_{kind}"
    assert matches(compiled("choice", '["yes", "no"]'), vocabulary, "yes")
