"""What the engine hands back: plain data that can be merged and sent over a wire."""

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

FinishReason = Literal["stop", "length"]


class Alternative(NamedTuple):
    """One of the most likely tokens of a position, most likely first."""

    token_id: int
    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One position of a prompt or completion.

    `token` is the token's name (spec section 6). `logprob` and `rank` are None for the first
    token of a prompt; `rank` is 1 + the number of strictly greater logprobs and is set for prompt
    tokens only. `text_offset` counts code points from the start of the prompt's, or else the
    completion's, text. `top` holds as many alternatives as were asked for.
    """

    token_id: int
    token: str
    logprob: float | None
    text_offset: int
    top: tuple[Alternative, ...] = ()
    rank: int | None = None


@dataclass(slots=True)
class PromptOutput:
    """What became of one prompt, sent once, before its candidates' first tokens.

    `cached_tokens` of it were reused; `logprobs` covers every prompt token if they were asked for.
    """

    index: int
    num_tokens: int
    cached_tokens: int = 0
    logprobs: list[TokenLogprob] | None = None


@dataclass(slots=True)
class CandidateOutput:
    """What one candidate gained since its last output.

    `text` and `logprobs` are new; `num_tokens` and `cumulative_logprob` (0 unless logprobs are
    computed) are totals. The last output of a candidate has a finish_reason.
    """

    prompt_index: int
    index: int
    text: str = ""
    num_tokens: int = 0
    logprobs: list[TokenLogprob] = field(default_factory=list)
    cumulative_logprob: float = 0.0
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None

    def copy_as(self, index: int) -> "CandidateOutput":
        """The same gain of another candidate."""
        return replace(self, index=index, logprobs=list(self.logprobs))

    def merge(self, later: "CandidateOutput") -> None:
        """Append what came later."""
        self.text += later.text
        self.logprobs += later.logprobs
        self.num_tokens = later.num_tokens
        self.cumulative_logprob = later.cumulative_logprob
        self.finish_reason = later.finish_reason
        self.stop_reason = later.stop_reason


@dataclass(frozen=True, slots=True)
class Timings:
    """Where a request's time went, in seconds."""

    queued: float
    prefill: float
    decode: float

    @property
    def time_to_first_token(self) -> float:
        """From arrival to the first token."""
        return self.queued + self.prefill


@dataclass(slots=True)
class RequestOutput:
    """What one request gained in a step, or in several if its reader was slow.

    The last output has `timings`, or an `error` if the request failed; no other follows it.
    """

    request_id: str
    prompts: list[PromptOutput] = field(default_factory=list)
    candidates: dict[tuple[int, int], CandidateOutput] = field(default_factory=dict)
    timings: Timings | None = None
    error: str | None = None

    @property
    def finished(self) -> bool:
        """Whether this is the request's last output."""
        return self.timings is not None or self.error is not None

    def add(self, candidate: CandidateOutput) -> None:
        """Take in what one candidate gained."""
        key = candidate.prompt_index, candidate.index
        if key in self.candidates:
            self.candidates[key].merge(candidate)
        else:
            self.candidates[key] = candidate

    def merge(self, later: "RequestOutput") -> None:
        """Append what came later, so that a slow reader holds one output and not a queue."""
        self.prompts += later.prompts
        for candidate in later.candidates.values():
            self.add(candidate)
        self.timings = later.timings
        self.error = later.error
