"""The request log in the admin: to be looked at, never changed."""

import json
from typing import ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from completions.admin.paginator import LogPaginator
from completions.admin.read_only import ReadOnly
from completions.models import LoggedChoice, RequestLog

# The admin's own variables keep it readable in dark mode.
_PRE = (
    '<pre style="white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; padding: 8px 12px; '
    'background: var(--darkened-bg); border-radius: 4px; max-width: 80ch;">{}</pre>'
)


class ChoiceInline(ReadOnly, admin.StackedInline):  # type: ignore[type-arg]
    """The choices of an answer, below its request."""

    model = LoggedChoice
    fields = ("written_text", "finish_reason", "stop_reason", "num_tokens")
    readonly_fields = fields
    extra = 0

    @admin.display(description=_("text"))
    def written_text(self, choice: LoggedChoice) -> SafeString:
        """The text as it was generated, line breaks and blanks included."""
        return as_written(choice.text)


@admin.register(RequestLog)
class RequestLogAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    """Lists and shows requests without ever counting the whole table."""

    list_display = (
        "created",
        "request_id",
        "model",
        "user",
        "status_code",
        "finish_reasons",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
        "first_token",
        "tokens_per_second",
        "total_time",
    )
    list_display_links = ("created", "request_id")
    list_filter = ("status_code", "stream", "prompt_kind", "created")
    list_per_page = 50
    date_hierarchy = "created"
    search_fields = ("=request_id", "user", "prompt", "choices__text")
    search_help_text = _("Request id, user, or a text in the prompt or the answer.")
    show_full_result_count = False
    paginator = LogPaginator
    inlines = (ChoiceInline,)
    fieldsets: ClassVar = [
        (None, {"fields": ("request_id", "created", "status_code", "error")}),
        (
            _("Request"),
            {"fields": ("model", "user", "client_address", "stream", "sent_parameters")},
        ),
        (_("Prompt"), {"fields": ("prompt_kind", "written_prompt")}),
        (_("Tokens"), {"fields": ("prompt_tokens", "cached_tokens", "completion_tokens")}),
        (
            _("Times"),
            {
                "fields": (
                    "queued_seconds",
                    "prefill_seconds",
                    "time_to_first_token",
                    "decode_seconds",
                    "duration",
                )
            },
        ),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[RequestLog]:
        """With the choices, which the list shows the ends of."""
        return super().get_queryset(request).prefetch_related("choices")

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
        return f"{row.completion_tokens / row.decode_seconds:.1f}" if row.decode_seconds else "-"

    @admin.display(description=_("duration"), ordering="duration")
    def total_time(self, row: RequestLog) -> str:
        """From the request's first byte to its end."""
        return seconds(row.duration)

    @admin.display(description=_("prompt"))
    def written_prompt(self, row: RequestLog) -> SafeString:
        """The prompt as it was sent."""
        return as_written(row.prompt)

    @admin.display(description=_("parameters"))
    def sent_parameters(self, row: RequestLog) -> SafeString:
        """The parameters that differ from their default."""
        return as_written(json.dumps(row.parameters, indent=2, ensure_ascii=False))


def as_written(text: str) -> SafeString:
    """Escaped text with its white space kept."""
    return format_html(_PRE, text)


def seconds(value: float | None) -> str:
    """A duration as the list shows it."""
    return "-" if value is None else f"{value:.3f} s"
