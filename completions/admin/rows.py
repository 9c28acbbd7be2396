"""Rows of the request log, asked in ways that stay fast when there are millions."""

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from completions.models import LoggedChoice, RequestLog

if TYPE_CHECKING:
    from django.db.models.expressions import Combinable

SEARCHED_ROWS = 100_000
"""Texts are searched in that many of the newest rows: no index finds a part of a text."""


class LogRows(QuerySet[RequestLog]):
    """A queryset for the admin's list."""

    def datetimes(  # type: ignore[override]
        self,
        field_name: str,
        kind: str,
        order: str = "ASC",  # noqa: ARG002
        tzinfo: dt.tzinfo | None = None,  # noqa: ARG002
    ) -> list[dt.datetime]:
        """The days, months or years that have rows, by a look into the index for each of them.

        Django would truncate the time of every row.
        """
        starts = []
        times = self.order_by(field_name).values_list(field_name, flat=True)
        moment = times.first()
        while moment is not None:
            starts.append(start_of(kind, moment))
            moment = times.filter(**{f"{field_name}__gte": _next(kind, starts[-1])}).first()
        return starts

    def aggregate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Look the first and last time up one by one, as Django's date hierarchy asks for both.

        Together they would read every row.
        """
        if args or set(kwargs) != {"first", "last"}:
            return super().aggregate(*args, **kwargs)
        times = self.values_list("created", flat=True)
        return {
            "first": times.order_by("created").first(),
            "last": times.order_by("-created").first(),
        }

    def distinct_values(self, field: str) -> Iterator[Any]:
        """The values of an indexed field but "", in order, by a look into the index for each."""
        values = self.order_by(field).values_list(field, flat=True)
        value = values.filter(**{f"{field}__gt": ""}).first()
        while value is not None:
            yield value
            value = values.filter(**{f"{field}__gt": value}).first()

    def search(self, term: str, *, content: bool) -> "LogRows":
        """Rows with this id, or else the newest ones with a text in the user (or the content)."""
        by_id = self.filter(request_id=term)
        if by_id.exists():
            return by_id
        found: Combinable | Q = Q(user__icontains=term)
        if content:
            choices = LoggedChoice.objects.filter(log=OuterRef("request_id"), text__icontains=term)
            found |= Q(prompt__icontains=term) | Exists(choices)
        return self._newest(SEARCHED_ROWS).filter(found)

    def _newest(self, limit: int) -> "LogRows":
        times = self.order_by("-created").values_list("created", flat=True)
        oldest = times[limit : limit + 1].first()
        return self if oldest is None else self.filter(created__gt=oldest)


def start_of(kind: str, moment: dt.datetime) -> dt.datetime:
    """The beginning of a moment's day, month or year in the current time zone."""
    if timezone.is_aware(moment):
        moment = timezone.localtime(moment)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if kind == "day":
        return midnight
    return midnight.replace(day=1, month=moment.month if kind == "month" else 1)


def _next(kind: str, start: dt.datetime) -> dt.datetime:
    days = {"day": 1, "month": 31, "year": 366}[kind]
    return start_of(kind, start + dt.timedelta(days=days))
