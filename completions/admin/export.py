"""Requests as CSV and as JSON lines, a piece at a time."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from completions.admin.streaming import streamed
from completions.models import LoggedChoice, RequestLog

CHUNK_ROWS = 500
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that starts with one of these for a formula."""

FIELDS = [
    field.attname
    for field in RequestLog._meta.concrete_fields  # noqa: SLF001
    if not field.primary_key
]
CHOICE_FIELDS = [
    field.attname
    for field in LoggedChoice._meta.concrete_fields  # noqa: SLF001
    if field.name not in ("id", "log")
]

Row = dict[str, Any]


def export(request: HttpRequest, rows: QuerySet[RequestLog], name: str) -> StreamingHttpResponse:
    """An attachment with the rows, newest first, in a format of FORMATS."""
    media_type, write = FORMATS[name]
    return streamed(
        request,
        write(_read(rows)),
        content_type=media_type,
        headers={"Content-Disposition": f'attachment; filename="requests.{name}"'},
    )


def _read(rows: QuerySet[RequestLog]) -> Iterator[Row]:
    ordered = rows.order_by("-created", "-id").prefetch_related("choices")
    for row in ordered.iterator(chunk_size=CHUNK_ROWS):
        exported = {field: getattr(row, field) for field in FIELDS}
        exported["created"] = row.created.isoformat()
        exported["choices"] = [
            {field: getattr(choice, field) for field in CHOICE_FIELDS}
            for choice in row.choices.all()
        ]
        yield exported


def _as_csv(rows: Iterator[Row]) -> Iterator[str]:
    """A line per request; parameters and choices are JSON within their cells."""
    line = io.StringIO()
    writer = csv.writer(line)
    header = [*FIELDS, "choices"]
    writer.writerow(header)
    for row in rows:
        writer.writerow([_cell(row[field]) for field in header])
        yield line.getvalue()
        line.seek(0)
        line.truncate()
    yield line.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return value


def _as_json_lines(rows: Iterator[Row]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row) + "\n"


FORMATS: dict[str, tuple[str, Callable[[Iterator[Row]], Iterator[str]]]] = {
    "csv": ("text/csv; charset=utf-8", _as_csv),
    "jsonl": ("application/jsonl", _as_json_lines),
}
