"""One request as its page shows it."""

import json
import math
import shlex
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise, cached_property
from django.utils.translation import gettext_lazy as _

from completions.conf import settings
from completions.models import LoggedChoice, RequestLog

PROBABILITIES = (0.1, 0.3, 0.6, 0.9)
"""Where one colour of a token's probability ends and the next begins."""


@dataclass(frozen=True)
class Segment:
    """A stretch of the timeline: `start` and `width` in percent of the whole."""

    name: str
    label: str | Promise
    seconds: float
    start: str
    width: str

    @property
    def time(self) -> str:
        """Its length for people."""
        return seconds(self.seconds)


@dataclass(frozen=True)
class Token:
    """A generated token; `level` is 0 for the least likely colour."""

    text: str
    logprob: float
    level: int = field(init=False)

    def __post_init__(self) -> None:
        level = sum(self.probability >= bound for bound in PROBABILITIES)
        object.__setattr__(self, "level", level)

    @property
    def probability(self) -> float:
        """The chance that the model gave it, 1 is certain."""
        return math.exp(self.logprob)

    @property
    def title(self) -> str:
        """What is shown when it is pointed at."""
        return f"{self.probability:.1%} · {self.logprob:.3f}"


class RequestDetail:
    """What the template asks for."""

    def __init__(self, row: RequestLog, request: HttpRequest) -> None:
        self.row = row
        self._request = request

    @property
    def status_class(self) -> int:
        """The first digit of the status."""
        return self.row.status_code // 100

    @property
    def probability_labels(self) -> list[str]:
        """What the colours of tokens stand for, the least likely first."""
        bounds = [0, *PROBABILITIES, 1]
        return [f"{low:.0%} - {high:.0%}" for low, high in pairwise(bounds)]

    @property
    def numbers(self) -> list[tuple[str | Promise, Any]]:
        """What stands at the top of the page."""
        row = self.row
        return [
            (_("prompt tokens"), row.prompt_tokens),
            (_("cached tokens"), row.cached_tokens),
            (_("completion tokens"), row.completion_tokens),
            (_("first token"), seconds(row.time_to_first_token)),
            (_("tokens/s"), tokens_per_second(row)),
            (_("duration"), seconds(row.duration)),
        ]

    @property
    def sender(self) -> list[tuple[str | Promise, Any]]:
        """Who asked for what; blanks are left out."""
        row = self.row
        facts = [
            (_("model"), row.model),
            (_("user"), row.user),
            (_("client address"), row.client_address),
            (_("streamed"), _("yes") if row.stream else _("no")),
            (_("prompt kind"), row.get_prompt_kind_display()),
        ]
        return [(label, value) for label, value in facts if value]

    @cached_property
    def timeline(self) -> list[Segment]:
        """Where the time went; the rest is reading, checking and sending."""
        row = self.row
        phases = [
            ("queued", _("queued"), row.queued_seconds),
            ("prefill", _("prefill"), row.prefill_seconds),
            ("decode", _("decode"), row.decode_seconds),
        ]
        known = sum(seconds or 0 for _name, _label, seconds in phases)
        phases.append(("other", _("other"), max(row.duration - known, 0)))
        whole = max(row.duration, known) or 1
        segments, start = [], 0.0
        for name, label, seconds in phases:
            if seconds is None:
                continue
            width = 100 * seconds / whole
            segments.append(Segment(name, label, seconds, f"{start:.2f}%", f"{width:.2f}%"))
            start += width
        return segments

    @property
    def parameters(self) -> str:
        """Those that differ from their defaults, as JSON."""
        return json.dumps(self.row.parameters, indent=2, ensure_ascii=False)

    @property
    def choices(self) -> list[tuple[LoggedChoice, list[Token]]]:
        """The choices, each with its tokens if their logprobs are known."""
        return [(choice, _tokens(choice)) for choice in self.row.choices.all()]

    @property
    def curl(self) -> str:
        """A command that sends the same request again; "" if the log does not know it whole."""
        body = self._body()
        if not body:
            return ""
        lines = [
            f"curl {shlex.quote(self._url('completions:completions') or '/v1/completions')}",
            "-H 'Content-Type: application/json'",
            f"--data-raw {shlex.quote(json.dumps(body, ensure_ascii=False))}",
        ]
        if self.row.stream:
            lines.insert(1, "--no-buffer")
        return " \\\n  ".join(lines)

    def _body(self) -> dict[str, Any]:
        """The request's body, without fields that have their default."""
        row, kinds = self.row, RequestLog.PromptKind
        if row.prompt_kind == kinds.NONE or len(row.prompt) > settings.LOG_MAX_CHARACTERS:
            return {}
        prompt = row.prompt if row.prompt_kind == kinds.TEXT else json.loads(row.prompt)
        user = {"user": row.user} if row.user else {}
        return {"model": row.model, "prompt": prompt, **row.parameters, **user}

    @property
    def playground(self) -> str | None:
        """Address of the playground with this request, where there is one."""
        url = self._url("completions:playground")
        return url and f"{url}?request={self.row.request_id}"

    def _url(self, name: str) -> str | None:
        try:
            return self._request.build_absolute_uri(reverse(name))
        except NoReverseMatch:
            return None


def _tokens(choice: LoggedChoice) -> list[Token]:
    return [Token(text, logprob) for text, logprob in choice.logprobs or ()]


def tokens_per_second(row: RequestLog) -> str:
    """Generated tokens of all choices per second of decoding."""
    return f"{row.completion_tokens / row.decode_seconds:.1f}" if row.decode_seconds else "-"


def seconds(value: float | None) -> str:
    """A duration for people."""
    if value is None:
        return "-"
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.2f} s"
