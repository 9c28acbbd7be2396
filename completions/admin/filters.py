"""What the list can be narrowed to."""

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from completions.admin.rows import LogRows
from completions.models import LoggedChoice, RequestLog
from completions.record import CLIENT_CLOSED_REQUEST

OUTCOMES = {
    "answered": (_("answered"), Q(status_code__range=(200, 299))),
    "refused": (_("refused"), Q(status_code__range=(400, 498))),
    "failed": (_("failed"), Q(status_code__gte=500)),
    "abandoned": (_("abandoned by the client"), Q(status_code=CLIENT_CLOSED_REQUEST)),
}


class OutcomeFilter(SimpleListFilter):
    """By what became of the request."""

    title = _("outcome")
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:  # noqa: ARG002
        """The outcomes there are."""
        return [(name, label) for name, (label, _condition) in OUTCOMES.items()]

    def queryset(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: QuerySet[RequestLog],
    ) -> QuerySet[RequestLog]:
        """Keep the requests of the chosen outcome."""
        outcome = OUTCOMES.get(self.value() or "")
        return queryset.filter(outcome[1]) if outcome else queryset


class ModelFilter(SimpleListFilter):
    """By the name that the client called the model."""

    title = _("model")
    parameter_name = "model"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """The names in the log."""
        return [(name, name) for name in LogRows(RequestLog).distinct_values("model")]

    def queryset(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: QuerySet[RequestLog],
    ) -> QuerySet[RequestLog]:
        """Keep the requests to the chosen model."""
        return queryset.filter(model=self.value()) if self.value() else queryset


class FinishReasonFilter(SimpleListFilter):
    """By how a choice ended."""

    title = _("finish reason")
    parameter_name = "finish_reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """The contract's reasons."""
        return [("stop", "stop"), ("length", "length")]

    def queryset(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: QuerySet[RequestLog],
    ) -> QuerySet[RequestLog]:
        """Keep the requests of which a choice ended so."""
        if not self.value():
            return queryset
        choices = LoggedChoice.objects.filter(log=OuterRef("request_id"))
        return queryset.filter(Exists(choices.filter(finish_reason=self.value())))
