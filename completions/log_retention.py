"""How long rows of the request log are kept: LOG_MAX_AGE_DAYS and LOG_MAX_ROWS."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from completions.conf import settings
from completions.models import RequestLog

BATCH_ROWS = 1000


def prune_batch() -> int:
    """Delete the oldest rows that are too old or too many, BATCH_ROWS at most; how many."""
    for surplus in _surplus():
        ids = list(surplus.order_by("id").values_list("id", flat=True)[:BATCH_ROWS])
        if ids:
            RequestLog.objects.filter(id__in=ids).delete()
            return len(ids)
    return 0


def _surplus() -> Iterator[QuerySet[RequestLog]]:
    if settings.LOG_MAX_AGE_DAYS is not None:
        oldest = timezone.now() - timedelta(days=settings.LOG_MAX_AGE_DAYS)
        yield RequestLog.objects.filter(created__lt=oldest)
    if settings.LOG_MAX_ROWS is not None:
        newest = RequestLog.objects.order_by("-id").values_list("id", flat=True)
        for first_surplus in newest[settings.LOG_MAX_ROWS : settings.LOG_MAX_ROWS + 1]:
            yield RequestLog.objects.filter(id__lte=first_surplus)
