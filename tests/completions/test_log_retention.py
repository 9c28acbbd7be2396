"""Which rows are deleted, in which order."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from completions import log_retention
from completions.models import LoggedChoice, RequestLog
from completions.request_log import write

from .rows import choice, entry

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows():
    """Ten rows, each a day older than the next one."""
    now = timezone.now()
    write([entry(i, choice(i), created=now - timedelta(days=10 - i)) for i in range(10)])


def kept():
    return list(RequestLog.objects.order_by("id").values_list("request_id", flat=True))


def test_everything_is_kept_without_settings(rows):
    call_command("prune_request_logs")
    assert len(kept()) == 10


@pytest.mark.parametrize(
    "limits, first",
    [
        ({"LOG_MAX_AGE_DAYS": 3.5}, 7),
        ({"LOG_MAX_ROWS": 4}, 6),
        ({"LOG_MAX_ROWS": 10}, 0),
        ({"LOG_MAX_ROWS": 0}, 10),
        ({"LOG_MAX_AGE_DAYS": 3.5, "LOG_MAX_ROWS": 2}, 8),
    ],
)
def test_the_oldest_go(settings, monkeypatch, rows, limits, first):
    monkeypatch.setattr(log_retention, "BATCH_ROWS", 3)
    settings.COMPLETIONS = limits
    call_command("prune_request_logs")
    assert kept() == [f"cmpl-{i}" for i in range(first, 10)]
    assert LoggedChoice.objects.count() == 10 - first


def test_a_batch_is_bounded(settings, monkeypatch, rows):
    monkeypatch.setattr(log_retention, "BATCH_ROWS", 3)
    settings.COMPLETIONS = {"LOG_MAX_ROWS": 2}
    assert [log_retention.prune_batch() for _ in range(4)] == [3, 3, 2, 0]
