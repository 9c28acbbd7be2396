import json
import shlex

import pytest
from django.test import RequestFactory
from django.utils import timezone

from completions.admin.detail import RequestDetail, Token
from completions.conf import settings as app_settings
from completions.models import LoggedChoice, RequestLog
from completions.record import Record
from engine.outputs import CandidateOutput, RequestOutput, TokenLogprob


def detail(**fields):
    row = RequestLog(
        request_id="cmpl-1", created=timezone.now(), model="fake", status_code=200, **fields
    )
    return RequestDetail(row, RequestFactory(SERVER_NAME="localhost").get("/admin/"))


@pytest.mark.parametrize(
    ("kind", "prompt", "sent"),
    [
        ("text", 'it\'s "so"\n$HOME `x` \\', 'it\'s "so"\n$HOME `x` \\'),
        ("texts", '["a", "b"]', ["a", "b"]),
        ("tokens", "[1, 2]", [1, 2]),
        ("token lists", "[[1], [2]]", [[1], [2]]),
    ],
)
def test_curl_sends_the_same_request(kind, prompt, sent):
    parameters = {"temperature": 0, "stop": ["'"], "stream": True}
    curl = detail(
        prompt_kind=kind, prompt=prompt, parameters=parameters, user="ada", stream=True
    ).curl
    words = shlex.split(curl.replace("\\\n", ""))
    assert words[:3] == ["curl", "http://localhost/v1/completions", "--no-buffer"]
    body = json.loads(words[words.index("--data-raw") + 1])
    assert body == {"model": "fake", "prompt": sent, "user": "ada", **parameters}


def test_no_curl_for_what_the_log_does_not_know(settings):
    assert detail().curl == ""
    settings.COMPLETIONS = {**settings.COMPLETIONS, "LOG_MAX_CHARACTERS": 3}
    app_settings.reload()
    assert detail(prompt_kind="text", prompt="abc…").curl == ""


def test_timeline_fills_the_duration():
    segments = detail(
        queued_seconds=1.0, prefill_seconds=2.0, decode_seconds=4.0, duration=10.0
    ).timeline
    assert [(segment.name, segment.start, segment.width) for segment in segments] == [
        ("queued", "0.00%", "10.00%"),
        ("prefill", "10.00%", "20.00%"),
        ("decode", "30.00%", "40.00%"),
        ("other", "70.00%", "30.00%"),
    ]


def test_timeline_of_a_refused_request_has_no_phases():
    assert [segment.name for segment in detail(duration=0.002).timeline] == ["other"]


@pytest.mark.parametrize(
    ("logprob", "level"), [(0.0, 4), (-0.2, 3), (-0.7, 2), (-1.5, 1), (-9.0, 0), (-9999.0, 0)]
)
def test_a_token_is_coloured_by_its_probability(logprob, level):
    assert Token("x", logprob).level == level


def test_tokens_with_logprobs_are_shown_one_by_one(admin_client, db):
    row = detail(prompt="p", prompt_kind="text").row
    row.save()
    LoggedChoice.objects.create(
        log=row, index=0, text="a <b>", logprobs=[["a", -0.01], [" <b>", -3]]
    )
    page = admin_client.get(f"/admin/completions/requestlog/{row.pk}/change/").content.decode()
    assert '<span class="p4" title="99.0% · -0.010">a</span>' in page
    assert " &lt;b&gt;</span>" in page


def test_logprobs_are_logged_when_they_were_asked_for(monkeypatch, settings):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "LOG_REQUESTS": True}
    app_settings.reload()
    logged = []

    class Writer:
        def put(self, row, choices):
            logged.extend(choices)

    monkeypatch.setattr("completions.record.get_writer", Writer)
    tokens = [TokenLogprob(1, "a", -0.123456, 0), TokenLogprob(2, "b", float("-inf"), 1)]
    for logprobs in (tokens, []):
        Record().finish(RequestOutput("cmpl-1"), [CandidateOutput(0, 0, "ab", 2, logprobs)])
    assert [choice.logprobs for choice in logged] == [[("a", -0.1235), ("b", -9999.0)], None]
