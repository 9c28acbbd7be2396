"""The Python API and the command that prints what it gives."""

import io

import pytest
from django.core.management import CommandError, call_command

import completions
from completions import acomplete, astream, complete
from completions.exceptions import BadRequest, ServiceUnavailable, Unprocessable

from .fakes import FakeEngine


def test_complete():
    completion = complete("hi", max_tokens=3)
    assert completion["choices"][0]["text"] == "abc"
    assert completion["model"] == "fake"


async def test_acomplete_with_token_ids(engine):
    completion = await acomplete([1, 2], max_tokens=2, model="alias")
    assert completion["model"] == "alias"
    assert list(engine.requests[0].prompts[0].token_ids) == [1, 2]


async def test_astream():
    chunks = [chunk async for chunk in astream("hi", max_tokens=3, n=2)]
    assert [chunk["choices"][0]["index"] for chunk in chunks] == [0, 1] * 3


async def test_stream_that_is_left(engine):
    stream = astream("hi", max_tokens=100)
    await anext(stream)
    await stream.aclose()
    assert engine.aborted == [engine.requests[0].request_id]


def test_refusals_are_exceptions(settings):
    with pytest.raises(Unprocessable, match="n: must be"):
        complete("hi", n=0)
    with pytest.raises(BadRequest, match="maximum context length"):
        complete("hi", max_tokens=10**6)
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MODEL": None}


def test_no_model(settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MODEL": None}
    with pytest.raises(ServiceUnavailable, match="prepare_model"):
        complete("hi")


def test_unknown_attribute_of_the_package():
    with pytest.raises(AttributeError):
        _ = completions.no_such_name


@pytest.mark.parametrize("arguments", [[], ["--stream"]])
def test_command(arguments):
    out = io.StringIO()
    call_command("complete", "hi", "--max-tokens", "4", *arguments, stdout=out)
    assert out.getvalue() == "abca\n"


def test_command_passes_its_options_on(monkeypatch):
    made = []
    start = FakeEngine.start
    monkeypatch.setattr(FakeEngine, "start", lambda self: (made.append(self), start(self)))
    options = ["--temperature", "0.5", "--seed", "7", "--stop", "x", "--stop", "y"]
    call_command("complete", "hi", *options, stdout=io.StringIO())
    params = made[0].requests[0].params
    assert (params.temperature, params.seed, params.stop) == (0.5, 7, ("x", "y"))
    assert made[0].state == "stopped"


def test_command_reports_a_refusal():
    with pytest.raises(CommandError, match="max_tokens"):
        call_command("complete", "hi", "--max-tokens", "0", stdout=io.StringIO())
