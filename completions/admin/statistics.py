"""What the log says of a day, in a few numbers."""

import datetime as dt
import statistics
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache
from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum
from django.utils import timezone

from completions.models import RequestLog

SAMPLE_ROWS = 2_000
"""Percentiles of a day are those of about that many requests, evenly taken."""

PERCENTS = (50, 95, 99)
PAST_DAY_SECONDS = 3600
TODAY_SECONDS = 10

Percentiles = tuple[float, ...]


@dataclass(frozen=True)
class Group:
    """The requests of a model and a key; `errors` are those that were not answered in full."""

    model: str
    key: str
    requests: int
    errors: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Day:
    """A day's groups, and the percentiles of its latencies in seconds, PERCENTS of each."""

    date: dt.date
    groups: tuple[Group, ...]
    time_to_first_token: Percentiles
    duration: Percentiles


def last_days(count: int) -> list[Day]:
    """The last days up to today, oldest first; past ones are remembered for a while."""
    today = timezone.localdate() if timezone.is_aware(timezone.now()) else dt.date.today()  # noqa: DTZ011
    days = [today - dt.timedelta(days=back) for back in reversed(range(count))]
    return [_remembered(day, PAST_DAY_SECONDS if day < today else TODAY_SECONDS) for day in days]


def _remembered(date: dt.date, seconds: int) -> Day:
    key = f"completions.dashboard.{timezone.get_current_timezone_name()}.{date}"
    day: Day | None = cache.get(key)
    if day is None:
        day = summarize(date)
        cache.set(key, day, seconds)
    return day


def summarize(date: dt.date) -> Day:
    """Ask the database for one day."""
    rows = _rows_of(date)
    first_tokens, durations = _sample(rows)
    return Day(date, tuple(_groups(rows)), _percentiles(first_tokens), _percentiles(durations))


def _rows_of(date: dt.date) -> QuerySet[RequestLog]:
    start, end = (
        dt.datetime.combine(day, dt.time.min) for day in (date, date + dt.timedelta(days=1))
    )
    if timezone.is_aware(timezone.now()):
        start, end = timezone.make_aware(start), timezone.make_aware(end)
    return RequestLog.objects.filter(created__gte=start, created__lt=end).order_by()


def _groups(rows: QuerySet[RequestLog]) -> list[Group]:
    counted: Any = rows.values_list("model").annotate(
        requests=Count("id"),
        errors=Count("id", filter=~Q(status_code=200)),
        prompts=Sum("prompt_tokens"),
        cached=Sum("cached_tokens"),
        completions=Sum("completion_tokens"),
    )
    return [Group(model, "", *numbers) for model, *numbers in counted]


def _sample(rows: QuerySet[RequestLog]) -> tuple[list[float], list[float]]:
    """Times to the first token, and durations, of answered requests."""
    ids = rows.aggregate(first=Min("id"), last=Max("id"))
    step = max(((ids["last"] or 0) - (ids["first"] or 0)) // SAMPLE_ROWS, 1)
    answered = rows.filter(status_code=200, time_to_first_token__isnull=False)
    sample = answered.annotate(place=F("id") % step).filter(place=0)
    times = list(sample.values_list("time_to_first_token", "duration"))
    return [first_token or 0.0 for first_token, _ in times], [duration for _, duration in times]


def _percentiles(values: list[float]) -> Percentiles:
    if len(values) < 2:  # noqa: PLR2004 - quantiles needs two
        return tuple(values * len(PERCENTS))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return tuple(cuts[percent - 1] for percent in PERCENTS)
