"""Pages of a list that is too long to be counted."""

from typing import TYPE_CHECKING, cast

from django.core.paginator import Paginator
from django.db.models import Max, QuerySet
from django.utils.functional import cached_property

if TYPE_CHECKING:
    from completions.models import RequestLog


class LogPaginator(Paginator):  # type: ignore[type-arg]
    """Never counts all rows: the last id tells how many there are, filtered ones have a limit."""

    limit = 10_000

    @cached_property
    def count(self) -> int:
        """How many rows there are, about."""
        rows = cast("QuerySet[RequestLog]", self.object_list)
        if rows.query.where:
            return rows.order_by()[: self.limit].count()
        return rows.aggregate(last=Max("id"))["last"] or 0
