"""The request log in the admin, as somebody at a browser meets it."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect

LIST = "/admin/completions/requestlog/"
NUM_ROWS = 400


@pytest.fixture(scope="module", autouse=True)
def logged(site):
    """A log of two weeks; its newest row is a request that was really answered."""
    site.run("-m", "tests.log_rows", str(NUM_ROWS))
    answer = site.ask(
        prompt="The best thing about the sea is",
        max_tokens=32,
        temperature=0,
        logprobs=2,
        stream=False,
    )
    site.wait_until(lambda: len(site.rows()) == NUM_ROWS + 1)
    return answer.json()


@pytest.fixture
def scheme(request, page):
    page.emulate_media(color_scheme=request.param)
    return request.param


BOTH = pytest.mark.parametrize("scheme", ["light", "dark"], indirect=True)


@BOTH
def test_list(page, scheme, screenshot, check_accessibility):
    page.goto(LIST)
    expect(page.locator("#result_list tbody tr")).to_have_count(50)
    check_accessibility()
    screenshot(f"admin-list-{scheme}", full_page=False)


def test_filter_and_search(page, logged):
    page.goto(LIST)
    page.get_by_role("link", name="refused", exact=True).click()
    page.wait_for_url("**outcome=refused")
    statuses = page.locator("#result_list .completions-status").all_inner_texts()
    assert set(statuses) == {"404", "422"}
    page.goto(LIST)
    page.locator("#searchbar").fill(logged["id"])
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)


@BOTH
def test_detail(page, scheme, logged, screenshot, check_accessibility):
    page.goto(f"{LIST}?q={logged['id']}")
    page.locator("#result_list .field-request_id a").click()
    expect(page.get_by_text("The best thing about the sea is", exact=True)).to_be_visible()
    check_accessibility()
    screenshot(f"admin-detail-{scheme}")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"curl {page.url.split('/admin')[0]}/v1/completions")


def test_export_of_a_selection(page, tmp_path):
    page.goto(LIST)
    for box in page.locator("#result_list .action-select").all()[:3]:
        box.check()
    page.get_by_label("Action:").select_option("export_jsonl")
    with page.expect_download() as download:
        page.get_by_role("button", name="Go").click()
    path = tmp_path / "requests.jsonl"
    download.value.save_as(path)
    exported = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(exported) == 3
    assert download.value.suggested_filename == "requests.jsonl"


def test_export_of_a_filtered_list(page, tmp_path):
    page.goto(f"{LIST}?outcome=refused")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export all as CSV").click()
    path = tmp_path / "requests.csv"
    download.value.save_as(path)
    with path.open(newline="") as file:
        assert {row["status_code"] for row in csv.DictReader(file)} == {"404", "422"}


@BOTH
def test_dashboard(page, site, scheme, screenshot, check_accessibility):
    page.goto(LIST)
    page.get_by_role("link", name="Dashboard").click()
    expect(page.locator("[data-field=state]")).to_have_text("ready")
    with ThreadPoolExecutor() as pool:
        pool.submit(site.ask, prompt="Once upon a time", n=8, max_tokens=100, ignore_eos=True)
        expect(page.locator("[data-field=slots_in_use]")).to_have_text("8")
        page.wait_for_timeout(2500)
        screenshot(f"admin-dashboard-{scheme}")
    expect(page.locator(".sparkline polyline")).not_to_have_attribute("points", "")
    check_accessibility()
