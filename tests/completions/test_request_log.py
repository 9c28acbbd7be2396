"""The writer of the request log, and its database's faults."""

import os
import subprocess
import sys

import pytest
from django.db import DataError, OperationalError

from completions import request_log
from completions.metrics import REGISTRY
from completions.models import LoggedChoice, RequestLog
from completions.request_log import RequestLogWriter

from .rows import choice, entry, row

TRANSACTIONS = pytest.mark.django_db(transaction=True)


def num_dropped():
    return REGISTRY.get_sample_value("request_log_dropped_total")


@pytest.fixture
def impatient(monkeypatch):
    """A writer that tries twice, at once."""
    monkeypatch.setattr(request_log, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(request_log, "RETRY_SECONDS", 0)
    return RequestLogWriter()


@pytest.mark.django_db
def test_rows_are_written_with_their_choices():
    request_log.write([entry(i, choice(i, 0, text="a"), choice(i, 1, text="b")) for i in range(3)])
    assert RequestLog.objects.count() == 3
    saved = RequestLog.objects.get(request_id="cmpl-1")
    assert [c.text for c in saved.choices.all()] == ["a", "b"]


@pytest.mark.django_db
def test_batches_take_few_queries(django_assert_max_num_queries):
    with django_assert_max_num_queries(8):
        request_log.write([entry(i, choice(i)) for i in range(100)])


@pytest.mark.django_db
def test_a_row_that_is_refused_costs_no_other():
    request_log.write([entry(1)])
    assert request_log.write([entry(2), entry(1), entry(3)]) == 1
    ids = RequestLog.objects.order_by("id").values_list("request_id", flat=True)
    assert list(ids) == ["cmpl-1", "cmpl-2", "cmpl-3"]


@TRANSACTIONS
def test_writer_thread_writes_and_flushes():
    writer = RequestLogWriter()
    stored = [writer.put(row(number), [choice(number)]) for number in range(50)]
    for each in stored:
        each.result(10)
    writer.flush(10)
    assert RequestLog.objects.count() == 50
    assert LoggedChoice.objects.count() == 50


def test_full_queue_drops_and_counts(settings, monkeypatch):
    settings.COMPLETIONS = {"LOG_QUEUE_SIZE": 2}
    writer = RequestLogWriter()
    monkeypatch.setattr(writer, "_ensure_thread", lambda: None)
    before = num_dropped()
    stored = [writer.put(row(number)) for number in range(5)]
    assert stored[2:] == [None] * 3
    assert num_dropped() - before == 3


@TRANSACTIONS
@pytest.mark.parametrize("fault", [OperationalError("database is locked"), ZeroDivisionError()])
def test_a_database_that_comes_back_loses_nothing(monkeypatch, fault):
    monkeypatch.setattr(request_log, "PAUSE_SECONDS", 0)
    save, faults = request_log._save, [fault] * 3

    def broken(entries):
        if faults:
            raise faults.pop()
        save(entries)

    monkeypatch.setattr(request_log, "_save", broken)
    writer, before = RequestLogWriter(), num_dropped()
    writer.put(row(1), [choice(1)])
    writer.flush(10)
    assert RequestLog.objects.get().choices.count() == 1
    assert num_dropped() == before
    assert not writer.is_failing


@TRANSACTIONS
@pytest.mark.parametrize("fault", [OperationalError("disk is full"), ZeroDivisionError()])
def test_a_database_that_stays_away_costs_its_batches(monkeypatch, impatient, fault, caplog):
    tries = []

    def broken(entries):
        tries.append(entries)
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(request_log, "_save", broken)
        before = num_dropped()
        impatient.put(row(1)).result(10)
        impatient.flush(10)
        assert num_dropped() - before == 1
        assert impatient.is_failing
        assert len(tries) <= 2
    impatient.put(row(2)).result(10)
    impatient.flush(10)
    assert RequestLog.objects.get().request_id == "cmpl-2"
    assert not impatient.is_failing
    assert "1 rows of the request log are lost" in caplog.text


@TRANSACTIONS
def test_a_row_that_can_not_be_stored_is_counted(monkeypatch, impatient):
    save = request_log._save

    def picky(entries):
        if any(each.row.model == "bad" for each in entries):
            raise DataError("value too long")
        save(entries)

    monkeypatch.setattr(request_log, "_save", picky)
    before = num_dropped()
    for number, model in enumerate(["good", "bad", "good"]):
        impatient.put(row(number, model=model))
    impatient.flush(10)
    assert RequestLog.objects.count() == 2
    assert num_dropped() - before == 1


@TRANSACTIONS
def test_the_writer_prunes(settings, impatient):
    settings.COMPLETIONS = {"LOG_MAX_ROWS": 3}
    for number in range(10):
        impatient.put(row(number)).result(10)
        impatient._next_prune = 0
    impatient.flush(10)
    assert RequestLog.objects.count() <= 4


def test_all_of_it_on_postgresql(postgres):
    """These tests and those of content and retention, in a run of their own."""
    names = ("test_request_log", "test_log_content", "test_log_retention")
    paths = [f"tests/completions/{name}.py" for name in names]
    arguments = ["-m", "pytest", "--ds=tests.completions.postgres_settings", "--create-db", *paths]
    ended = subprocess.run(
        [sys.executable, *arguments, "-k", "not postgresql", "-p", "no:cacheprovider"],
        env={**os.environ, "POSTGRES_PORT": str(postgres.port)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
