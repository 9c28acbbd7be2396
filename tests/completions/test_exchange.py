"""The exchange as the consumer carries it."""

import asyncio
import json
import threading

import pytest

from completions import engines, exchange
from engine.errors import QueueFull

from .http import BODY, JSON, ask, connection, until

FORM = {**JSON, "content-type": "application/x-www-form-urlencoded"}


def check_error(answer, status, param=None):
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    body = answer.json
    assert body["object"] == "error"
    assert (body["code"], body["param"]) == (status, param)
    assert body["error"] == {name: body[name] for name in ("message", "type", "param", "code")}
    assert ("detail" in body) == (status == 422)
    return body


async def test_completion(engine):
    answer = await ask()
    assert answer.status == 200
    assert answer.json["choices"][0]["text"] == "abc"
    assert answer.json["id"] == answer.headers["x-request-id"] == engine.requests[0].request_id
    assert int(answer.headers["content-length"]) == len(answer.body)


async def test_stream(engine):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    answer = await ask(options)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-length" not in answer.headers
    *pieces, last = answer.events
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == "abc"
    assert last["usage"]["completion_tokens"] == 3
    assert {piece["id"] for piece in answer.events} == {engine.requests[0].request_id}


async def test_prompts_are_tokenized_and_ids_taken_as_they_are(engine):
    await ask({"prompt": ["hi", "é"]})
    await ask({"prompt": [1, 2]})
    found = [[list(prompt.token_ids) for prompt in r.prompts] for r in engine.requests]
    assert found == [[[104, 105], [195, 169]], [[1, 2]]]
    assert [prompt.text for prompt in engine.requests[0].prompts] == ["hi", "é"]


async def test_suffix_becomes_a_fill_in_the_middle_prompt(engine):
    answer = await ask({"prompt": "a", "suffix": "b", "echo": True})
    assert engine.requests[0].prompts[0].text == "<p>a<s>b<m>"
    assert answer.json["choices"][0]["text"] == "aabc"


async def test_echo_of_token_ids_is_their_text():
    answer = await ask({"prompt": [104, 105], "echo": True})
    assert answer.json["choices"][0]["text"] == "hiabc"


async def test_body_in_pieces():
    body = json.dumps(BODY).encode()
    async with connection() as opened:
        for byte in body:
            await opened.send_body(bytes([byte]), more_body=True)
        await opened.send_body(b"")
        assert (await opened.receive_answer()).status == 200


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"method": "GET"}, 405),
        ({"method": "DELETE", "headers": FORM}, 405),
        ({"headers": FORM}, 415),
        ({"headers": {"host": "localhost"}}, 415),
        ({"headers": {**JSON, "host": "evil.example"}}, 400),
        ({"raw": b"{"}, 400),
        ({"body": {"n": 0}}, 422),
        ({"body": {"model": "x", "n": 0}}, 422),
        ({"body": {"model": "x", "n": 2, "best_of": 1}}, 400),
        ({"body": {"model": "x"}}, 404),
        ({"body": {"model": "x", "prompt": [10**9]}}, 404),
        ({"body": {"prompt": [10**9]}}, 400),
        ({"body": {"prompt": "\ud83d"}}, 400),
        ({"body": {"max_tokens": 255}}, 400),
        ({"body": {"n": 0, "stream": True}}, 422),
        ({"body": {"max_tokens": 255, "stream": True}}, 400),
    ],
)
async def test_refusals_in_their_order(engine, options, status):
    body = options.pop("body", None)
    answer = await ask(body, **options)
    assert answer.status == status
    check_error(answer, status, answer.json["param"])
    assert not engine.requests
    if status == 405:
        assert answer.headers["allow"] == "POST"


async def test_all_problems_are_listed():
    error = check_error(await ask({"temperature": 9, "top_k": 0, "prompt": None}), 422, "prompt")
    assert {problem["loc"][1] for problem in error["detail"]} == {"temperature", "top_k", "prompt"}


async def test_suffix_for_a_model_that_has_no_tokens_for_it(engine, monkeypatch):
    from dataclasses import replace

    engine.model = replace(engine.model, fim=None)
    check_error(await ask({"suffix": "x", "max_tokens": 10**6}), 400, "suffix")


async def test_body_over_the_limit_is_refused_while_it_is_read(settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MAX_BODY_BYTES": 100}
    async with connection() as opened:
        for _ in range(3):
            await opened.send_body(b"x" * 40, more_body=True)
        check_error(await opened.receive_answer(), 413)
        await opened.send_body(b"x" * 40)  # what still comes is dropped


async def test_announced_size_over_the_limit_is_refused_at_once(settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MAX_BODY_BYTES": 100}
    async with connection(headers={**JSON, "content-length": "101"}) as opened:
        await opened.send_body(b"x", more_body=True)
        check_error(await opened.receive_answer(), 413)


@pytest.mark.parametrize("stream", [False, True])
async def test_no_admission_while_loading(engine, stream):
    engine.state = "loading"
    answer = await ask({"stream": stream})
    check_error(answer, 503)
    assert answer.headers["retry-after"] == "7"


async def test_full_queue(engine, monkeypatch):
    def refuse(request):
        raise QueueFull("Too many requests are waiting.", 3)

    monkeypatch.setattr(engine, "generate", refuse)
    answer = await ask({"stream": True})
    check_error(answer, 503)
    assert answer.headers["retry-after"] == "3"


async def test_failure_is_told_without_its_cause(engine, caplog):
    engine.fails_at = 1
    answer = await ask()
    error = check_error(answer, 500)
    assert "NaN" not in answer.body.decode()
    assert answer.headers["x-request-id"] in error["message"]
    assert "NaN in the logits" in caplog.text


async def test_failure_after_the_headers_is_an_event(engine):
    engine.fails_at = 1
    answer = await ask({"stream": True})
    first, last = answer.events
    assert first["choices"][0]["text"] == "a"
    assert last["error"]["type"] == "InternalServerError"


@pytest.mark.parametrize("stream", [False, True])
async def test_client_that_leaves_frees_its_request(engine, stream):
    engine.pace = 0.01
    opened = connection()
    async with opened as opened:
        body = {**BODY, "max_tokens": 200, "stream": stream}
        await opened.send_body(json.dumps(body).encode())
        await until(lambda: engine.running)
        if stream:
            await opened.receive_output()
            await opened.receive_output()
    assert engine.aborted == [engine.requests[0].request_id]
    assert not engine.running


async def test_client_that_leaves_in_the_middle_of_its_body(engine):
    async with connection() as opened:
        await opened.send_body(b'{"model"', more_body=True)
        await asyncio.sleep(0)
    assert not engine.requests


async def test_finished_request_is_not_aborted(engine):
    await ask({"stream": True})
    await ask()
    assert engine.aborted == []


async def test_comment_after_silence(engine, settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "PING_SECONDS": 0.01}
    engine.pace = 0.05
    answer = await ask({"stream": True})
    assert b": ping\n\n" in answer.body
    assert len(answer.events) == 3


@pytest.mark.parametrize(("padding", "in_loop"), [(0, True), (exchange.INLINE_BYTES, False)])
async def test_large_bodies_leave_the_event_loop_free(engine, monkeypatch, padding, in_loop):
    threads = []

    def check(request):
        threads.append(threading.current_thread() is threading.main_thread())

    monkeypatch.setattr(engine, "check", check)
    assert (await ask({"prompt": "x" * (padding + 1)})).status == 200
    assert threads == [in_loop]


async def test_first_request_loads_the_model(monkeypatch):
    assert engines.registry.current is None
    assert (await ask()).status == 200
    assert engines.registry.current.state == "ready"


async def test_alias_is_echoed():
    assert (await ask({"model": "alias"})).json["model"] == "alias"


async def test_requests_at_the_same_time():
    answers = await asyncio.gather(*(ask({"stream": bool(i % 2)}) for i in range(20)))
    assert {answer.status for answer in answers} == {200}


@pytest.mark.parametrize("stream", [False, True])
async def test_time_limit(engine, settings, stream):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "REQUEST_TIMEOUT": 0.05}
    engine.pace = 0.02
    answer = await ask({"max_tokens": 200, "stream": stream})
    error = answer.events[-1]["error"] if stream else answer.json["error"]
    assert (error["code"], error["type"]) == (503, "ServiceUnavailableError")
    assert "longer than 0.05 seconds" in error["message"]
    assert not engine.running
