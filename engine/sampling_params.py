"""How the candidates of a request are sampled and when they end (spec sections 2 to 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy."""

GuidedKind = Literal["json", "regex", "choice", "grammar"]


@dataclass(frozen=True, slots=True)
class GuidedParams:
    """A constraint on the completion (spec section 5).

    `source` is JSON Schema text for "json", a pattern for "regex", the JSON text of a list of
    strings for "choice", and a GBNF or Lark grammar for "grammar". `backend` None is the default.
    `field` is the request's field that errors name; None is `guided_<kind>`.
    """

    kind: GuidedKind
    source: str
    whitespace_pattern: str | None = None
    backend: str | None = None
    field: str | None = None

    @property
    def param(self) -> str:
        """The name of the field that holds the source."""
        return self.field or f"guided_{self.kind}"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The validated parameters of one request; ranges are those of spec section 2.

    `best_of` candidates run per prompt and `n` of them are returned; None means n. `seed` None
    draws a fresh seed. `logprobs` and `prompt_logprobs` are how many of the most likely tokens
    to report beside the actual one; None reports nothing.
    """

    n: int = 1
    best_of: int | None = None
    max_tokens: int = 16
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    guided: GuidedParams | None = None

    @property
    def is_greedy(self) -> bool:
        """Whether every step takes the most likely token."""
        return self.temperature < GREEDY_BELOW

    @property
    def num_candidates(self) -> int:
        """Candidates that are generated per prompt."""
        return self.n if self.best_of is None else self.best_of

    @property
    def is_ranked(self) -> bool:
        """Whether candidates compete by their summed logprobs."""
        return self.num_candidates > self.n

    @property
    def needs_logprobs(self) -> bool:
        """Whether the chosen tokens' logprobs must be computed."""
        return self.logprobs is not None or self.is_ranked
