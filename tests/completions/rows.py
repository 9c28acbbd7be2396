"""Rows of the request log."""

from django.utils import timezone

from completions.models import LoggedChoice, RequestLog
from completions.request_log import Entry


def row(number, **fields):
    fields = {"created": timezone.now(), **fields}
    return RequestLog(request_id=f"cmpl-{number}", **fields)


def choice(number, index=0, **fields):
    return LoggedChoice(log_id=f"cmpl-{number}", index=index, **fields)


def entry(number, *choices, **fields):
    return Entry(row(number, **fields), choices)
