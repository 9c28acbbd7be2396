"""A candidate of a prompt while it is computed, and the request it belongs to."""

import secrets
import time
from collections.abc import Iterator
from collections.abc import Sequence as Items

import numpy as np
from numpy.typing import NDArray

from engine.candidate_text import CandidateText
from engine.guided.backend import CompiledGrammar, Grammar
from engine.outputs import (
    CandidateOutput,
    FinishReason,
    PromptOutput,
    RequestOutput,
    Timings,
    TokenLogprob,
)
from engine.prompt_scorer import PromptScorer
from engine.request import Prompt, Request
from engine.sampling import CandidateState
from engine.tokenizer import Tokenizer

Tokens = NDArray[np.int32]

STUCK = "The constraint can't be followed any further."
"""How a request fails whose backend knows no way to go on."""


class RequestState:
    """A request in the engine: its prompts, what it gained in this step, and its times."""

    def __init__(
        self,
        request: Request,
        tokenizer: Tokenizer,
        eos_token_ids: Items[int],
        grammar: CompiledGrammar | None = None,
    ) -> None:
        self.request = request
        self.params = request.params
        self.tokenizer = tokenizer
        self.eos_token_ids = eos_token_ids
        self.grammar = grammar
        seed = request.params.seed
        self.seed = secrets.randbits(64) if seed is None else seed % 2**64
        self.output = RequestOutput(request.request_id)
        self.prompts = [PromptState(self, i, prompt) for i, prompt in enumerate(request.prompts)]
        self.unfinished = len(self.prompts) * self.num_computed_candidates
        self.arrived = time.monotonic()
        self.started: float | None = None
        self.first_token: float | None = None

    @property
    def num_computed_candidates(self) -> int:
        """Candidates that are computed per prompt: greedy ones are equal, so one stands for all."""
        return 1 if self.params.is_greedy else self.params.num_candidates

    @property
    def copies(self) -> int:
        """How many candidates one computed candidate stands for."""
        return self.params.num_candidates if self.params.is_greedy else 1

    @property
    def finished(self) -> bool:
        """Whether every candidate has ended, or the request failed."""
        return self.output.finished

    def start(self) -> None:
        """The first of its tokens is computed in this step."""
        self.started = self.started or time.monotonic()

    def emit(self, candidate: CandidateOutput) -> None:
        """Hand out what a computed candidate gained, to all that it stands for."""
        now = time.monotonic()
        self.first_token = self.first_token or now
        for copy in range(1, self.copies):
            self.output.add(candidate.copy_as(candidate.index + copy))
        self.output.add(candidate)
        if candidate.finish_reason:
            self.unfinished -= 1
            if not self.unfinished:
                self.output.timings = self._timings(now)

    def fail(self, message: str) -> None:
        """End all candidates with an error."""
        self.output.error = message

    @property
    def has_output(self) -> bool:
        """Whether it gained something since the last call of `take_output`."""
        return bool(self.output.candidates or self.output.prompts or self.output.error)

    def take_output(self) -> RequestOutput:
        """What was gained since the last call."""
        output, self.output = self.output, RequestOutput(self.request.request_id)
        return output

    def _timings(self, now: float) -> Timings:
        started = self.started or self.arrived
        first = self.first_token or now
        return Timings(started - self.arrived, first - started, now - first)


class PromptState:
    """One prompt of a request: computed once, then shared by its candidates.

    `candidates` yields those that have not begun; the first of them, the leader, computes the
    prompt, and the first tokens of all are drawn from its logits.
    """

    def __init__(self, owner: RequestState, index: int, prompt: Prompt) -> None:
        self.owner = owner
        self.index = index
        self.tokens: Tokens = np.asarray(prompt.token_ids, np.int32)
        self.text = prompt.text
        self.cached_tokens = 0
        k = owner.params.prompt_logprobs
        self.scorer = None if k is None else PromptScorer(prompt, k, owner.tokenizer)

    @property
    def wants_logprobs(self) -> bool:
        """Whether the logits of every prompt token are needed, so that none may be reused."""
        return self.scorer is not None

    def output(self) -> PromptOutput:
        """What became of the prompt."""
        logprobs = self.scorer.entries if self.scorer else None
        return PromptOutput(self.index, len(self.tokens), self.cached_tokens, logprobs)


class Sequence:
    """One candidate: its tokens, how many of them are computed, and how it is sampled.

    `slot` is where its keys and values lie while it runs.
    """

    def __init__(self, prompt: PromptState, index: int) -> None:
        params = prompt.owner.params
        self.prompt = prompt
        self.owner = prompt.owner
        self.index = index
        self.num_prompt_tokens = len(prompt.tokens)
        self.num_tokens = self.num_prompt_tokens
        self.num_computed_tokens = 0
        self.slot = -1
        self.is_finished = False
        self.cumulative_logprob = 0.0
        self._tokens = np.empty(self.num_tokens + params.max_tokens, np.int32)
        self._tokens[: self.num_tokens] = prompt.tokens
        self.sampling = CandidateState(
            params, index, self.owner.seed, prompt.tokens, self.owner.eos_token_ids
        )
        self.text = CandidateText(params, self.owner.tokenizer)
        self.grammar = self.owner.grammar.start() if self.owner.grammar else None

    @property
    def tokens(self) -> Tokens:
        """Prompt and generated tokens."""
        return self._tokens[: self.num_tokens]

    @property
    def prefilled(self) -> Tokens:
        """The prompt's tokens whose keys and values are in the slot."""
        return self._tokens[: min(self.num_computed_tokens, self.num_prompt_tokens)]

    @property
    def num_generated(self) -> int:
        """Tokens of the completion so far."""
        return self.num_tokens - self.num_prompt_tokens

    @property
    def num_unprefilled(self) -> int:
        """Tokens of the prompt that are still to be computed."""
        return max(0, self.num_prompt_tokens - self.num_computed_tokens)

    @property
    def is_prefilled(self) -> bool:
        """Whether its prompt is computed."""
        return not self.num_unprefilled

    @property
    def is_leader(self) -> bool:
        """Whether its next logits give the first tokens of all the prompt's candidates."""
        return self.index == 0 and not self.num_generated

    @property
    def scorer(self) -> PromptScorer | None:
        """What wants the logits of the prompt, when it is computed for the first time."""
        return None if self.num_generated else self.prompt.scorer

    def begin(self, num_reused: int) -> None:
        """It gets a slot, in which `num_reused` of its tokens lie already."""
        self.owner.start()
        if not self.num_generated:
            self.prompt.cached_tokens = num_reused

    def siblings(self) -> Iterator["Sequence"]:
        """The prompt's other candidates, which have not begun."""
        for index in range(1, self.owner.num_computed_candidates):
            yield Sequence(self.prompt, index)

    def append(self, token_id: int) -> None:
        """Take the token that was drawn."""
        self._tokens[self.num_tokens] = token_id
        self.num_tokens += 1
        self.sampling.append(token_id)

    def take(
        self, token_id: int, entry: TokenLogprob | None
    ) -> tuple[FinishReason | None, int | str | None]:
        """Add the last token's text; why the candidate ends with it, in the spec's order."""
        params, count = self.owner.params, self.num_generated
        may_end = count >= params.min_tokens
        is_eos = token_id in self.owner.eos_token_ids and not params.ignore_eos
        is_stop = token_id in params.stop_token_ids
        ends = may_end and (is_eos or is_stop)
        shown = not ends or (params.include_stop_str_in_output and not is_eos)
        self.text.append(token_id, entry, shown=shown)
        if ends:
            return "stop", None if is_eos else token_id
        if self.text.found is not None:
            return "stop", self.text.found
        if self.grammar and self._is_text_complete(self.grammar, token_id):
            return "stop", None
        return ("length", None) if count == params.max_tokens else (None, None)

    def _is_text_complete(self, grammar: Grammar, token_id: int) -> bool:
        """Go on in the constraint; whether nothing can follow."""
        if not grammar.accept(token_id):
            self.owner.fail(STUCK)
        return grammar.is_finished


def common_prefix(left: Tokens, right: Tokens) -> int:
    """How many leading tokens are equal."""
    size = min(len(left), len(right))
    if not size or left[0] != right[0]:
        return 0
    differing = np.flatnonzero(left[:size] != right[:size])
    return int(differing[0]) if len(differing) else size
