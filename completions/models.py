"""The request log."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

MAX_MODEL = 200
MAX_USER = 1000


class RequestLog(models.Model):
    """One request to `/v1/completions`, answered, refused or abandoned.

    Durations are in seconds. Fields stay at their defaults as far as the request did not get.
    """

    class PromptKind(models.TextChoices):
        """How the prompt was written; all but TEXT are kept as JSON."""

        NONE = "", _("none")
        TEXT = "text", _("text")
        TEXTS = "texts", _("list of texts")
        TOKENS = "tokens", _("token ids")
        TOKEN_LISTS = "token lists", _("lists of token ids")

    request_id = models.CharField(_("request id"), max_length=64, unique=True)
    created = models.DateTimeField(_("time"), db_index=True)
    client_address = models.CharField(_("client address"), max_length=64, blank=True)
    model = models.CharField(_("model"), max_length=MAX_MODEL, blank=True)
    user = models.CharField(_("user"), max_length=MAX_USER, blank=True)
    status_code = models.PositiveSmallIntegerField(_("status"), default=0)
    error = models.TextField(_("error"), blank=True)
    stream = models.BooleanField(_("stream"), default=False)
    prompt_kind = models.CharField(
        _("prompt kind"), max_length=16, choices=PromptKind, default=PromptKind.NONE, blank=True
    )
    prompt = models.TextField(_("prompt"), blank=True)
    parameters = models.JSONField(
        _("parameters"),
        default=dict,
        blank=True,
        help_text=_("Those that differ from the default."),
    )
    prompt_tokens = models.PositiveIntegerField(_("prompt tokens"), default=0)
    cached_tokens = models.PositiveIntegerField(_("cached tokens"), default=0)
    completion_tokens = models.PositiveIntegerField(_("completion tokens"), default=0)
    queued_seconds = models.FloatField(_("queued"), null=True, blank=True)
    prefill_seconds = models.FloatField(_("prefill"), null=True, blank=True)
    decode_seconds = models.FloatField(_("decode"), null=True, blank=True)
    time_to_first_token = models.FloatField(_("time to first token"), null=True, blank=True)
    duration = models.FloatField(_("duration"), default=0.0)

    class Meta:  # noqa: D106
        verbose_name = _("request")
        verbose_name_plural = _("requests")
        ordering: ClassVar = ["-created", "-id"]
        permissions: ClassVar = [("view_content", _("Can view prompts and answers"))]
        indexes: ClassVar = [
            models.Index(fields=["model", "created"], name="completions_model_time"),
            models.Index(fields=["status_code", "created"], name="completions_status_time"),
        ]

    def __str__(self) -> str:
        return self.request_id


class LoggedChoice(models.Model):
    """One choice of an answer."""

    log = models.ForeignKey(
        RequestLog, on_delete=models.CASCADE, related_name="choices", to_field="request_id"
    )
    index = models.PositiveIntegerField(_("index"))
    text = models.TextField(_("text"), blank=True)
    num_tokens = models.PositiveIntegerField(_("tokens"), default=0)
    finish_reason = models.CharField(_("finish reason"), max_length=16, blank=True)
    stop_reason = models.JSONField(_("stop reason"), null=True, blank=True)
    logprobs = models.JSONField(
        _("logprobs"),
        null=True,
        blank=True,
        help_text=_("[token, logprob] of each token, if the request asked for them."),
    )

    class Meta:  # noqa: D106
        verbose_name = _("choice")
        verbose_name_plural = _("choices")
        ordering: ClassVar = ["index"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["log", "index"], name="completions_choice_index")
        ]

    def __str__(self) -> str:
        return f"{self.log_id}[{self.index}]"
