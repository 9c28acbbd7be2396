"""The dashboard: requests, errors, tokens and latencies of the last days."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import formats
from django.utils.translation import gettext as _

from completions.admin.charts import MAX_SERIES, Chart, Series, lines, stacked_bars
from completions.admin.live import snapshot
from completions.admin.statistics import PERCENTS, Day, Group, last_days

if TYPE_CHECKING:
    from completions.admin.request_log import RequestLogAdmin

TEMPLATE = "admin/completions/requestlog/dashboard.html"
RANGES = (7, 14, 30, 90)
DEFAULT_RANGE = 14


def view(request: HttpRequest, admin: "RequestLogAdmin") -> HttpResponse:
    """GET dashboard/?days=14."""
    days = last_days(_range(request))
    context = {
        **admin.admin_site.each_context(request),
        "title": _("Dashboard"),
        "opts": admin.opts,
        "media": admin.media,
        "is_nav_sidebar_enabled": False,
        "ranges": RANGES,
        "days": len(days),
        "charts": _charts(days),
        "groups": _totals(days),
        "live": snapshot(),
    }
    return render(request, TEMPLATE, context)


def _range(request: HttpRequest) -> int:
    wanted = request.GET.get("days", "")
    return int(wanted) if wanted in map(str, RANGES) else DEFAULT_RANGE


def _charts(days: Sequence[Day]) -> list[Chart]:
    labels = [formats.date_format(day.date, "j M") for day in days]
    outcomes: list[Series] = [
        (_("answered"), [sum(g.requests - g.errors for g in day.groups) for day in days]),
        (_("errors"), [sum(g.errors for g in day.groups) for day in days]),
    ]
    prompts: list[Series] = [
        (_("computed"), [sum(g.prompt_tokens - g.cached_tokens for g in d.groups) for d in days]),
        (_("cached"), [sum(g.cached_tokens for g in day.groups) for day in days]),
    ]
    by_model = _by(days, lambda group: group.model)
    by_key = _by(days, lambda group: group.key or _("no key"))
    return [
        stacked_bars(_("Requests"), labels, outcomes),
        stacked_bars(_("Tokens by model"), labels, by_model),
        stacked_bars(_("Tokens by key"), labels, by_key),
        stacked_bars(_("Prompt tokens"), labels, prompts),
        lines(_("Time to first token"), labels, _latencies(days, "time_to_first_token")),
        lines(_("Duration"), labels, _latencies(days, "duration")),
    ]


def _by(days: Sequence[Day], name_of: Callable[[Group], str]) -> list[Series]:
    """Prompt and completion tokens per day, the largest groups by name and the rest as one."""
    tokens: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(days))
    for number, day in enumerate(days):
        for group in day.groups:
            tokens[name_of(group)][number] += group.prompt_tokens + group.completion_tokens
    ranked = sorted(tokens.items(), key=lambda item: -sum(item[1]))
    ranked = [(name, values) for name, values in ranked if any(values)]
    named, rest = ranked[: MAX_SERIES - 1], ranked[MAX_SERIES - 1 :]
    if rest:
        named.append(
            (_("others"), [sum(column) for column in zip(*dict(rest).values(), strict=True)])
        )
    return [*named]


def _latencies(days: Sequence[Day], field: str) -> list[Series]:
    percentiles = [getattr(day, field) for day in days]
    return [
        (f"p{percent}", [values[number] if values else None for values in percentiles])
        for number, percent in enumerate(PERCENTS)
    ]


def _totals(days: Sequence[Day]) -> list[Group]:
    """A row per model and key over all days, most requests first."""
    numbers: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 5)
    for day in days:
        for group in day.groups:
            sums = numbers[group.model, group.key]
            counts = (
                group.requests,
                group.errors,
                group.prompt_tokens,
                group.cached_tokens,
                group.completion_tokens,
            )
            numbers[group.model, group.key] = [a + b for a, b in zip(sums, counts, strict=True)]
    totals = [Group(*names, *sums) for names, sums in numbers.items()]
    return sorted(totals, key=lambda group: -group.requests)
