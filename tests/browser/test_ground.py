"""That a browser reaches the site: what the other modules stand on."""

import pytest
from playwright.sync_api import expect


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_admin_index(page, check_accessibility, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto("/admin/")
    expect(page.get_by_role("link", name="Requests")).to_be_visible()
    check_accessibility()
