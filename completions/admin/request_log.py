"""The request log in the admin: to be looked at and exported, never changed."""

from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import is_aware, localtime
from django.utils.translation import gettext_lazy as _

from completions.admin import dashboard, live
from completions.admin.detail import RequestDetail, seconds, tokens_per_second
from completions.admin.export import FORMATS, export
from completions.admin.filters import FinishReasonFilter, ModelFilter, OutcomeFilter
from completions.admin.paginator import LogPaginator
from completions.admin.read_only import ReadOnly
from completions.admin.rows import LogRows
from completions.models import RequestLog

CONTENT_FIELDS = ("prompt", "parameters", "choices")
"""What only those with `view_content` see, and search in."""


@admin.register(RequestLog)
class RequestLogAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    """Lists and shows requests without ever counting the whole table."""

    list_display = (
        "time",
        "request_id",
        "model",
        "user",
        "status",
        "finish_reasons",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
        "first_token",
        "tokens_per_second",
        "total_time",
    )
    list_display_links = ("time", "request_id")
    list_filter = (
        OutcomeFilter,
        FinishReasonFilter,
        ModelFilter,
        "created",
        "stream",
        "prompt_kind",
    )
    list_per_page = 50
    date_hierarchy = "created"
    search_fields = ("request_id",)
    search_help_text = _("Request id, user, or a text in the prompt or the answer.")
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = LogPaginator
    fields = ()
    actions = ("export_csv", "export_jsonl")

    class Media:  # noqa: D106
        css: ClassVar = {"all": ["completions/admin.css"]}
        js: ClassVar = ["completions/admin.js"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[RequestLog]:  # noqa: ARG002
        """With the choices, which the list shows the ends of."""
        return LogRows(RequestLog).prefetch_related("choices")

    def get_search_results(
        self,
        request: HttpRequest,
        queryset: QuerySet[RequestLog],
        search_term: str,
    ) -> tuple[QuerySet[RequestLog], bool]:
        """By id, or else by text; none of the rows comes twice."""
        term = search_term.strip().strip('"')
        if term and isinstance(queryset, LogRows):
            content = self.has_view_content_permission(request)
            queryset = queryset.search(term, content=content)
        return queryset, False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Nobody guesses contents by filters in the address."""
        field = lookup.split("__", maxsplit=1)[0]
        if field in CONTENT_FIELDS and not self.has_view_content_permission(request):
            return False
        return super().lookup_allowed(lookup, value, request)

    def has_view_content_permission(self, request: HttpRequest) -> bool:
        """Whether prompts and answers may be seen."""
        return request.user.has_perm(f"{self.opts.app_label}.view_content")

    def get_urls(self) -> list[URLPattern]:
        """With the dashboard and the export of what the list shows."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        wrap = self.admin_site.admin_view
        return [
            path("dashboard/", wrap(self.dashboard_view), name=f"{name}_dashboard"),
            path("live/", wrap(self.live_view), name=f"{name}_live"),
            path("export/<str:form>/", wrap(self.export_view), name=f"{name}_export"),
            *super().get_urls(),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Offer the export to those who may have it; the columns need the sidebar's room."""
        context = {
            "can_export": self.has_view_content_permission(request),
            "is_nav_sidebar_enabled": False,
            "title": capfirst(str(self.opts.verbose_name_plural)),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Show a request in place of a form."""
        context["detail"] = RequestDetail(kwargs["obj"], request)
        context["can_view_content"] = self.has_view_content_permission(request)
        return super().render_change_form(request, context, *args, **kwargs)

    def dashboard_view(self, request: HttpRequest) -> HttpResponse:
        """Charts of the last days, and what the engine is doing now."""
        self._check_view_permission(request)
        return dashboard.view(request, self)

    def live_view(self, request: HttpRequest) -> StreamingHttpResponse:
        """What the engine is doing now, as server-sent events."""
        self._check_view_permission(request)
        return live.view(request)

    def export_view(self, request: HttpRequest, form: str) -> StreamingHttpResponse:
        """All rows that the list shows with the same query."""
        self._check_view_permission(request)
        if not self.has_view_content_permission(request):
            raise PermissionDenied
        if form not in FORMATS:
            raise Http404
        rows = self.get_changelist_instance(request).get_queryset(request)
        return export(request, rows, form)

    @admin.action(description=_("Export as CSV"), permissions=["view_content"])
    def export_csv(self, request: HttpRequest, rows: QuerySet[RequestLog]) -> StreamingHttpResponse:
        """The selection as CSV."""
        return export(request, rows, "csv")

    @admin.action(description=_("Export as JSON lines"), permissions=["view_content"])
    def export_jsonl(
        self, request: HttpRequest, rows: QuerySet[RequestLog]
    ) -> StreamingHttpResponse:
        """The selection as JSON lines."""
        return export(request, rows, "jsonl")

    @admin.display(description=_("time"), ordering="created")
    def time(self, row: RequestLog) -> str:
        """When the request came, to the second."""
        moment = localtime(row.created) if is_aware(row.created) else row.created
        return f"{moment:%Y-%m-%d %H:%M:%S}"

    @admin.display(description=_("status"), ordering="status_code")
    def status(self, row: RequestLog) -> SafeString:
        """The status code, marked by its class."""
        return format_html(
            '<span class="completions-status status-{}">{}</span>',
            row.status_code // 100,
            row.status_code,
        )

    @admin.display(description=_("finish reason"))
    def finish_reasons(self, row: RequestLog) -> str:
        """How the choices ended; each way once."""
        return ", ".join(sorted({choice.finish_reason for choice in row.choices.all()}))

    @admin.display(description=_("first token"), ordering="time_to_first_token")
    def first_token(self, row: RequestLog) -> str:
        """Time to the first token."""
        return seconds(row.time_to_first_token)

    @admin.display(description=_("tokens/s"))
    def tokens_per_second(self, row: RequestLog) -> str:
        """Generated tokens of all choices per second of decoding."""
        return tokens_per_second(row)

    @admin.display(description=_("duration"), ordering="duration")
    def total_time(self, row: RequestLog) -> str:
        """From the request's first byte to its end."""
        return seconds(row.duration)

    def _check_view_permission(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied
