from pathlib import Path

import pytest
from django.conf import settings as django_settings

from completions.documentation import field_table, outdated, render, settings_table

DOCS = Path(django_settings.BASE_DIR) / "docs"


def test_docs_are_what_the_code_says():
    """If not: manage.py render_docs."""
    assert list(outdated(DOCS)) == []


def test_fields_are_shown_with_type_range_and_default():
    table = field_table()
    assert "| `model` | string |  | required |" in table
    assert "| `temperature` | number or null | 0..2 | `1.0` |" in table
    assert "| `top_k` | int or null | -1 or >= 1 | `-1` |" in table
    assert "| `top_p` | number or null | (0, 1] | `1.0` |" in table
    assert "| `add_special_tokens` | bool |  | `true` |" in table
    assert "| `stream_options.include_usage` | bool or null |  | `false` |" in table
    assert "| `response_format.json_schema.schema` | object or null |" in table


def test_settings_are_shown():
    table = settings_table()
    assert "| `MAX_CANDIDATES` | `1024` |" in table
    assert "| `MODELS_DIR` | computed |" in table


def test_page_keeps_what_is_around_the_table():
    page = "# A\n<!-- t -->\nold\n<!-- /t -->\nB\n"
    assert render(page, "t", "| new |") == "# A\n<!-- t -->\n| new |\n<!-- /t -->\nB\n"


def test_page_without_markers():
    with pytest.raises(ValueError, match="no <!-- t -->"):
        render("# A", "t", "x")


def test_stale_page_is_found(tmp_path):
    (tmp_path / "api.md").write_text("<!-- fields -->\n<!-- /fields -->")
    (tmp_path / "settings.md").write_text(
        f"<!-- settings -->\n{settings_table()}\n<!-- /settings -->"
    )
    assert [path.name for path in outdated(tmp_path)] == ["api.md"]
