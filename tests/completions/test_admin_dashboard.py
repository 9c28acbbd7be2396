import datetime as dt
import json

import pytest
from django.core.cache import cache

from completions.admin import live
from completions.admin.charts import lines, short, stacked_bars
from completions.admin.rows import LogRows
from completions.admin.statistics import last_days, summarize
from completions.models import RequestLog
from tests.log_rows import fill

DASHBOARD = "/admin/completions/requestlog/dashboard/"


@pytest.fixture(autouse=True)
def _forget():
    cache.clear()
    yield
    cache.clear()


def logged(created, number=0, **fields):
    values = {"model": "fake", "status_code": 200, "time_to_first_token": 1.0, **fields}
    return RequestLog.objects.create(
        request_id=f"cmpl-{created:%Y%m%d%H%M}-{number}", created=created, **values
    )


def test_a_day_is_that_of_the_time_zone(db, settings):
    settings.TIME_ZONE = "America/New_York"
    logged(dt.datetime(2026, 5, 2, 3, 59, tzinfo=dt.UTC))
    assert [group.requests for group in summarize(dt.date(2026, 5, 1)).groups] == [1]
    assert summarize(dt.date(2026, 5, 2)).groups == ()


def test_groups_count_requests_errors_and_tokens(db):
    moment = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    logged(moment, 1, prompt_tokens=5, cached_tokens=4, completion_tokens=3)
    logged(moment, 2, status_code=503)
    logged(moment, 3, model="other", completion_tokens=7)
    groups = {group.model: group for group in summarize(moment.date()).groups}
    fake = groups["fake"]
    assert (fake.requests, fake.errors) == (2, 1)
    assert (fake.prompt_tokens, fake.cached_tokens, fake.completion_tokens) == (5, 4, 3)
    assert groups["other"].completion_tokens == 7


def test_percentiles_are_those_of_answered_requests(db):
    moment = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    for number in range(101):
        logged(moment, number, duration=float(number), time_to_first_token=number / 10)
    logged(moment, 999, status_code=503, duration=1e6)
    day = summarize(moment.date())
    assert day.duration == (50.0, 95.0, 99.0)
    assert day.time_to_first_token == pytest.approx((5.0, 9.5, 9.9))


def test_past_days_are_remembered(db, django_assert_num_queries):
    fill(20)
    last_days(7)
    with django_assert_num_queries(0):
        assert len(last_days(7)) == 7


def test_days_months_and_years_of_the_log(db):
    for month, day in ((1, 5), (1, 6), (3, 31)):
        logged(dt.datetime(2025, month, day, 12, tzinfo=dt.UTC))
    logged(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    for kind, starts in {
        "day": [(2025, 1, 5), (2025, 1, 6), (2025, 3, 31), (2026, 1, 1)],
        "month": [(2025, 1, 1), (2025, 3, 1), (2026, 1, 1)],
        "year": [(2025, 1, 1), (2026, 1, 1)],
    }.items():
        found = LogRows(RequestLog).datetimes("created", kind)
        assert [(day.year, day.month, day.day) for day in found] == starts
        assert found == list(RequestLog.objects.datetimes("created", kind))


@pytest.mark.parametrize("days", ["7", "30", "nonsense"])
def test_page(admin_client, db, days):
    fill(60)
    page = admin_client.get(f"{DASHBOARD}?days={days}").content.decode()
    assert "smollm2-135m-instruct" in page
    assert page.count("<figure") == 6
    assert "style=" not in page.split("END SVGs")[0].split("<main")[-1]


def test_page_of_an_empty_log(admin_client, db):
    assert "No requests." in admin_client.get(DASHBOARD).content.decode()


def test_live_state(admin_client, engine, monkeypatch):
    monkeypatch.setattr(live, "SECONDS", 0)
    monkeypatch.setattr(live, "NUM_EVENTS", 2)
    response = admin_client.get("/admin/completions/requestlog/live/")
    assert response["Content-Type"] == "text/event-stream"
    events = b"".join(response).decode().split("\n\n")[:-1]
    states = [json.loads(event.removeprefix("data: ")) for event in events]
    assert len(states) == 2
    assert states[0]["state"] == "ready"
    assert {"running", "waiting", "num_slots", "tokens_per_second"} <= set(states[0])


def test_stacked_bars_stand_on_each_other():
    chart = stacked_bars("t", ["a", "b"], [("x", [1, 2]), ("y", [3, 0])])
    assert len(chart.bars) == 3
    lower, upper = (bar for bar in chart.bars if bar.title.startswith("a"))
    assert float(upper.y) + float(upper.height) == pytest.approx(float(lower.y), abs=0.11)
    assert float(upper.height) == pytest.approx(3 * float(lower.height), abs=0.3)


def test_lines_leave_out_days_without_a_value():
    chart = lines("t", ["a", "b", "c"], [("p50", [0.1, None, 0.3])])
    assert [title for _, _, title in chart.lines[0].points] == [
        "a · p50: 0.100 s",
        "c · p50: 0.300 s",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (999, "999"), (1234, "1.23k"), (5e6, "5M")]
)
def test_short_numbers(value, text):
    assert short(value) == text
