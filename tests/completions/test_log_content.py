"""What the log keeps of texts."""

import pytest

from completions.log_content import NOT_REDACTED, apply_policy
from completions.models import LoggedChoice, RequestLog
from completions.request_log import write

from .rows import choice, entry, row

SECRET = "my secret " * 40


def stored(number, *choices, **fields):
    each = entry(number, *choices, **fields)
    apply_policy(each.row, each.choices)
    write([each])
    return RequestLog.objects.get()


def redact(text):
    return text.replace("secret", "******")


def broken(text):
    raise ValueError(text)


@pytest.mark.django_db
def test_texts_that_databases_refuse_are_escaped():
    fields = {"prompt": "a\0b\ud83d", "parameters": {"stop": ["\ud83d\0"]}, "model": "m" * 300}
    saved = stored(1, choice(1, text="\0", stop_reason="\0"), **fields)
    assert saved.prompt == "a\\x00b\\ud83d"
    assert saved.parameters == {"stop": ["\\ud83d\\x00"]}
    assert saved.model == "m" * 200
    assert (saved.choices.get().text, saved.choices.get().stop_reason) == ("\\x00", "\\x00")


@pytest.mark.django_db
def test_long_texts_are_cut(settings):
    settings.COMPLETIONS = {"LOG_MAX_CHARACTERS": 5}
    assert stored(1, choice(1, text="12345"), prompt="123456").prompt == "12345…"
    assert LoggedChoice.objects.get().text == "12345"


def everything(policy, settings, **more):
    settings.COMPLETIONS = {"LOG_CONTENT": policy, **more}
    kept = row(1, prompt=SECRET, parameters={"stop": [SECRET], "n": 2}, prompt_tokens=5)
    answer = choice(1, text=SECRET, stop_reason=SECRET, logprobs=[SECRET])
    apply_policy(kept, [answer])
    return kept, answer


def test_none_keeps_no_text(settings):
    kept, answer = everything("none", settings)
    assert "secret" not in repr([vars(kept), vars(answer)])
    assert (kept.prompt_tokens, kept.parameters["n"]) == (5, 2)


def test_truncated_keeps_beginnings(settings):
    kept, answer = everything("truncated", settings)
    assert kept.prompt == answer.text == answer.stop_reason == SECRET[:200] + "…"
    assert answer.logprobs is None


def test_redactor(settings):
    path = "tests.completions.test_log_content.redact"
    kept, answer = everything("full", settings, LOG_REDACTOR=path)
    assert "secret" not in repr([vars(kept), vars(answer)])
    assert kept.prompt == redact(SECRET)


def test_a_redactor_that_fails_leaks_nothing(settings):
    path = "tests.completions.test_log_content.broken"
    kept, answer = everything("full", settings, LOG_REDACTOR=path)
    assert kept.prompt == answer.text == NOT_REDACTED
