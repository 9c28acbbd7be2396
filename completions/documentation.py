"""The tables in the docs that are written from the code: fields and settings."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rest_framework.fields import empty

from completions.conf import SETTINGS, Setting
from completions.serializers import ClosedSerializer, CompletionSerializer, schema_of

Row = tuple[str, ...]


def field_table() -> str:
    """Every field of `/v1/completions`, nested ones with their dotted names."""
    rows = _field_rows(schema_of(CompletionSerializer), "")
    return _table(("Field", "Type", "Range", "Default", "Meaning"), rows)


def settings_table() -> str:
    """Every key of COMPLETIONS."""
    rows = ((f"`{name}`", _setting(s), s.description) for name, s in SETTINGS.items())
    return _table(("Key", "Default", "Meaning"), rows)


TABLES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "api.md": ("fields", field_table),
    "settings.md": ("settings", settings_table),
}
"""File in docs/, the name between its markers, and what stands there."""


def render(text: str, name: str, table: str) -> str:
    """Put a table between the markers `<!-- name -->` and `<!-- /name -->` of a page."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = re.compile(f"{re.escape(opening)}.*{re.escape(closing)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no {opening} … {closing}")
    return pattern.sub(lambda _: f"{opening}\n{table}\n{closing}", text)


def outdated(docs: Path) -> dict[Path, str]:
    """The pages that differ from the code, with what they should be."""
    pages = {}
    for file, (name, table) in TABLES.items():
        path = docs / file
        text = path.read_text()
        rendered = render(text, name, table())
        if rendered != text:
            pages[path] = rendered
    return pages


def _field_rows(serializer: ClosedSerializer, prefix: str) -> Iterator[Row]:
    fields: Mapping[str, Any] = serializer.fields
    for name, field in fields.items():
        nested = isinstance(field, ClosedSerializer)
        kind = "object" if nested else field.type_name
        if field.allow_null:
            kind += " or null"
        yield (
            f"`{prefix}{name}`",
            kind,
            "" if nested else field.range_text,
            _default(field),
            str(field.help_text or ""),
        )
        if nested:
            yield from _field_rows(field, f"{prefix}{name}.")


def _default(field: Any) -> str:
    if field.default is empty:
        return "required"
    default = field.default() if callable(field.default) else field.default
    if default is None or default in ((), {}):
        return "none"
    return f"`{json.dumps(default)}`"


def _setting(setting: Setting) -> str:
    return "computed" if callable(setting.default) else f"`{setting.default!r}`"


def _table(head: Row, rows: Iterator[Row]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_escape, line))} |" for line in lines)


def _escape(cell: str) -> str:
    return cell.replace("|", r"\|")
