"""What stays of a request: its row, its choices, and the metrics."""

import json

import pytest
from prometheus_client import generate_latest

from completions import metrics, record

from .http import BODY, ask, connection, until


class ListWriter:
    def __init__(self):
        self.rows = []

    def put(self, row, choices=()):
        self.rows.append((row, list(choices)))


@pytest.fixture
def log(settings, monkeypatch):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "LOG_REQUESTS": True}
    writer = ListWriter()
    monkeypatch.setattr(record, "get_writer", lambda: writer)
    return writer.rows


def sample(name, **labels):
    return metrics.REGISTRY.get_sample_value(name, {"model_name": "fake", **labels}) or 0


@pytest.mark.parametrize("stream", [False, True])
async def test_answered_request(log, engine, stream):
    answer = await ask({"n": 2, "stream": stream, "user": "me"})
    ((row, choices),) = log
    assert row.request_id == answer.headers["x-request-id"]
    assert (row.status_code, row.error) == (200, "")
    assert (row.model, row.user, row.client_address) == ("fake", "me", "10.0.0.7")
    assert (row.prompt_kind, row.prompt) == ("text", "hi")
    assert row.parameters == {"n": 2, "max_tokens": 3} | ({"stream": True} if stream else {})
    assert (row.prompt_tokens, row.cached_tokens, row.completion_tokens) == (2, 1, 6)
    assert (row.queued_seconds, row.prefill_seconds, row.decode_seconds) == (0.25, 0.5, 1.0)
    assert row.time_to_first_token == 0.75
    assert row.duration > 0
    assert [(c.index, c.text, c.finish_reason, c.num_tokens) for c in choices] == [
        (0, "abc", "length", 3),
        (1, "abc", "length", 3),
    ]


@pytest.mark.parametrize(
    ("prompt", "kind", "written"),
    [
        ("é\n", "text", "é\n"),
        (["é", "b"], "texts", '["é", "b"]'),
        ([1, 2], "tokens", "[1, 2]"),
        ([[1], [2]], "token lists", "[[1], [2]]"),
    ],
)
async def test_prompt_as_written(log, prompt, kind, written):
    await ask({"prompt": prompt})
    ((row, _),) = log
    assert (row.prompt_kind, row.prompt) == (kind, written)


@pytest.mark.parametrize(
    ("body", "raw", "status", "model"),
    [
        (None, b"{", 400, ""),
        ({"n": 0}, None, 422, ""),
        ({"model": "x"}, None, 404, "x"),
        ({"max_tokens": 1000}, None, 400, "fake"),
    ],
)
async def test_refused_request(log, body, raw, status, model):
    answer = await ask(body, raw=raw)
    ((row, choices),) = log
    assert (row.status_code, row.model) == (status, model)
    assert row.error == answer.json["message"]
    assert choices == []


async def test_abandoned_stream(log, engine):
    engine.pace = 0.01
    async with connection() as opened:
        await opened.send_body(json.dumps({**BODY, "max_tokens": 200, "stream": True}).encode())
        for _ in range(3):
            await opened.receive_output()
    ((row, (choice,)),) = log
    assert row.status_code == record.CLIENT_CLOSED_REQUEST
    assert choice.text.startswith("ab")
    assert choice.finish_reason == ""
    assert row.completion_tokens == choice.num_tokens


async def test_abandoned_request(log, engine):
    engine.pace = 0.01
    async with connection() as opened:
        await opened.send_body(json.dumps({**BODY, "max_tokens": 200}).encode())
        await until(lambda: engine.running)
    ((row, _),) = log
    assert row.status_code == record.CLIENT_CLOSED_REQUEST


async def test_failed_stream(log, engine):
    engine.fails_at = 1
    await ask({"stream": True})
    ((row, (choice,)),) = log
    assert row.status_code == 500
    assert choice.text == "a"


async def test_no_row_where_the_log_is_off(log, settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "LOG_REQUESTS": False}
    await ask()
    assert log == []


async def test_metrics_count_an_answer():
    names = {
        "prompt_tokens_total": 2,
        "generation_tokens_total": 6,
        "request_success_total": 1,
        "request_failure_total": 0,
        "time_to_first_token_seconds_sum": 0.75,
        "time_per_output_token_seconds_sum": 0.5,
        "e2e_request_latency_seconds_count": 1,
        "request_prompt_tokens_sum": 2,
        "request_generation_tokens_sum": 6,
    }
    before = {name: sample(name) for name in names}
    finished = sample("request_finish_total", finished_reason="length")
    await ask({"n": 2})
    assert {name: sample(name) - before[name] for name in names} == names
    assert sample("request_finish_total", finished_reason="length") - finished == 2


async def test_metrics_count_a_refusal_under_the_served_models_name():
    before = sample("request_failure_total"), sample("request_success_total")
    await ask({"model": "no-such-model"})
    assert (sample("request_failure_total"), sample("request_success_total")) == (
        before[0] + 1,
        before[1],
    )
    assert b"no-such-model" not in generate_latest(metrics.REGISTRY)
