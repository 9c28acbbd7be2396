"""What is put down of one request while it is answered; at its end it is counted and logged."""

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from completions import metrics
from completions.completion_request import CompletionRequest
from completions.conf import settings
from completions.exceptions import ApiError
from completions.models import LoggedChoice, RequestLog
from completions.protocol import MIN_LOGPROB
from completions.request_log import get_writer
from engine.outputs import CandidateOutput, RequestOutput
from engine.request import Prompt

if TYPE_CHECKING:
    from concurrent.futures import Future

CLIENT_CLOSED_REQUEST = 499
"""Status in the log of a request whose client went away; nothing was answered."""


class Record:
    """Fills a row of the request log; the first of finish, refuse, fail and abandon closes it."""

    def __init__(self, client_address: str = "") -> None:
        request_id = f"cmpl-{uuid.uuid4().hex}"
        self.request_id = request_id
        self.row = RequestLog(
            request_id=request_id, created=timezone.now(), client_address=client_address
        )
        self._started = time.monotonic()
        self._closed = False
        self._stored: Future[None] | None = None

    def note_request(self, request: CompletionRequest) -> None:
        """The body passed validation."""
        row = self.row
        row.model, row.user = request.model, request.user or ""
        row.stream, row.parameters = request.stream, request.changed
        row.prompt_kind, row.prompt = _written(request.prompt)

    def note_prompts(self, prompts: Sequence[Prompt]) -> None:
        """The prompts were tokenized."""
        self.row.prompt_tokens = sum(len(prompt.token_ids) for prompt in prompts)

    def finish(self, output: RequestOutput, returned: Sequence[CandidateOutput]) -> None:
        """The request was answered in full."""
        self._close(200, "", output, returned)

    def refuse(self, error: ApiError) -> None:
        """The request was answered with an error."""
        self._close(error.status, error.message)

    def fail(self, error: ApiError, output: RequestOutput) -> None:
        """The request failed after its 200 was sent."""
        self._close(error.status, error.message, output, list(output.candidates.values()))

    def abandon(self, output: RequestOutput | None = None) -> None:
        """The client went away."""
        candidates = list(output.candidates.values()) if output else []
        self._close(CLIENT_CLOSED_REQUEST, "The client went away.", output, candidates)

    async def stored(self) -> None:
        """Wait for the row to be stored, LOG_COMMIT_SECONDS at most, before the answer ends.

        What was answered is then in the log, even if the process is killed at once.
        """
        if self._stored and not get_writer().is_failing:
            future = asyncio.wrap_future(self._stored)
            await asyncio.wait([future], timeout=settings.LOG_COMMIT_SECONDS)

    def _close(
        self,
        status: int,
        error: str,
        output: RequestOutput | None = None,
        returned: Sequence[CandidateOutput] = (),
    ) -> None:
        if self._closed:
            return
        self._closed = True
        row = self.row
        row.status_code, row.error = status, error
        row.duration = time.monotonic() - self._started
        row.completion_tokens = sum(candidate.num_tokens for candidate in returned)
        if output:
            self._note_output(output)
        choices = [_choice(row, index, candidate) for index, candidate in enumerate(returned)]
        metrics.observe(row, choices)
        if settings.LOG_REQUESTS:
            self._stored = get_writer().put(row, choices)

    def _note_output(self, output: RequestOutput) -> None:
        row = self.row
        row.cached_tokens = sum(prompt.cached_tokens for prompt in output.prompts)
        if output.timings:
            row.queued_seconds = output.timings.queued
            row.prefill_seconds = output.timings.prefill
            row.decode_seconds = output.timings.decode
            row.time_to_first_token = output.timings.time_to_first_token


def _written(prompt: str | list[Any]) -> tuple[str, str]:
    """How a prompt was written, and the prompt: text as it is, lists as JSON."""
    kinds = RequestLog.PromptKind
    if isinstance(prompt, str):
        return kinds.TEXT, prompt
    kind = {str: kinds.TEXTS, int: kinds.TOKENS, list: kinds.TOKEN_LISTS}[type(prompt[0])]
    return kind, json.dumps(prompt, ensure_ascii=False)


def _choice(row: RequestLog, index: int, candidate: CandidateOutput) -> LoggedChoice:
    return LoggedChoice(
        log_id=row.request_id,
        index=index,
        text=candidate.text,
        num_tokens=candidate.num_tokens,
        finish_reason=candidate.finish_reason or "",
        stop_reason=candidate.stop_reason,
        logprobs=_logprobs(candidate) or None,
    )


def _logprobs(candidate: CandidateOutput) -> list[tuple[str, float]]:
    """Each token with its logprob to four places: the alternatives would multiply the log."""
    return [
        (token.token, round(max(token.logprob, MIN_LOGPROB), 4))
        for token in candidate.logprobs
        if token.logprob is not None
    ]
