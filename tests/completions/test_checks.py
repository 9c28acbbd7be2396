import pytest

from completions import checks


def ids(check):
    return [message.id for message in check()]


def test_unknown_key(settings):
    settings.COMPLETIONS = {"MODLE": "x"}
    (message,) = checks.check_settings()
    assert message.id == "completions.E001"
    assert "Did you mean MODEL?" in message.msg
    assert ids(checks.check_model) == []


def test_impossible_value(settings):
    settings.COMPLETIONS = {"PROVIDER": "tpu"}
    assert ids(checks.check_settings) == ["completions.E001"]


def test_engine_is_not_imported_by_a_check(settings):
    settings.COMPLETIONS = {"ENGINE": "no.such.module"}
    assert ids(checks.check_settings) == []


def test_model(settings, tmp_path):
    assert ids(checks.check_model) == ["completions.W001"]
    (tmp_path / "fake").mkdir()
    assert ids(checks.check_model) == []
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MODEL": None}
    assert ids(checks.check_model) == ["completions.W001"]


@pytest.mark.parametrize(("value", "found"), [("1", 0), ("4", 1), ("auto", 0)])
def test_workers(monkeypatch, value, found):
    monkeypatch.setenv("WEB_CONCURRENCY", value)
    assert len(checks.check_workers()) == found
