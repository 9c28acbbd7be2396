"""A real Chromium on the example site, which serves the default model.

Each test gets a `page` of its own, signed in as a superuser; it fails if the browser's console
has an error, a violation of the content security policy included.
"""

import os
import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from completions import engines
from tests.live import Live

SCREENSHOTS = Path(os.environ.get("SCREENSHOTS", "var/screenshots"))
"""Where screenshots go; those of the docs are made with SCREENSHOTS=docs/screenshots."""

USER = "ada"
PASSWORD = "a password of the tests"
SERIOUS = ("serious", "critical")
OF_DJANGO = ("#searchbar", ".breadcrumbs")
"""Parts of the admin that axe-core finds fault with and that are not ours."""


@pytest.fixture(scope="package")
def site(tmp_path_factory):
    """The example site on a port of its own; `url` is where it is."""
    model = engines.configured_model()
    if model is None:
        pytest.skip("no default model is prepared (make setup)")
    server = Live(
        "daphne",
        tmp_path_factory.mktemp("site"),
        "tests.browser.live_settings",
        model,
        LIVE_MODEL=model,
        DJANGO_SUPERUSER_PASSWORD=PASSWORD,
    )
    server.start()
    server.run(
        "manage.py", "createsuperuser", "--noinput", f"--username={USER}", "--email=ada@example.com"
    )
    yield server
    server.stop()


@pytest.fixture(scope="package")
def chromium():
    """Debian's Chromium, without a window.

    Its scope ends before the asynchronous tests of other packages: Playwright keeps an event loop.
    """
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium is installed (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def signed_in(site, chromium):
    """The cookies of the superuser, who signed in through the form."""
    context = chromium.new_context(base_url=site.url)
    page = context.new_page()
    page.goto("/admin/")
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/admin/")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def page(site, chromium, signed_in):
    """A page of the signed-in superuser; paths are relative to the site."""
    context = chromium.new_context(
        base_url=site.url, storage_state=signed_in, viewport={"width": 1400, "height": 860}
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    errors = []

    def on_console(message):
        # What axe-core does has no address.
        if message.type == "error" and message.location["url"]:
            errors.append(message.text)

    page.on("console", on_console)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def screenshot(page):
    """Call it with a name: the whole page goes to SCREENSHOTS/name.png."""

    def take(name, **options):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", **{"full_page": True, **options})

    return take


@pytest.fixture
def check_accessibility(page):
    """Call it on a finished page: axe-core must have no serious finding."""

    def check():
        context = {"exclude": [[part] for part in OF_DJANGO]}
        found = Axe().run(page, context).response["violations"]
        serious = {
            violation["id"]: [node["html"] for node in violation["nodes"]]
            for violation in found
            if violation["impact"] in SERIOUS
        }
        assert serious == {}

    return check
