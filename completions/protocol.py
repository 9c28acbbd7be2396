"""From the engine's outputs to completion objects, chunks and server-sent events (6 and 7)."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from completions.completion_request import CompletionRequest
from engine.outputs import Alternative, CandidateOutput, PromptOutput, RequestOutput, TokenLogprob

Json = dict[str, Any]

MIN_LOGPROB = -9999.0
"""What minus infinity is written as."""

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"

# ASCII output also escapes U+2028, U+2029 and U+0085, at which some clients would break a line.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def event(data: Json) -> bytes:
    """One server-sent event."""
    return f"data: {_encode(data)}\n\n".encode("ascii")


class Protocol:
    """Writes what the engine says about one request; `prompt_tokens` has a number per prompt."""

    def __init__(
        self, completion_id: str, created: int, request: CompletionRequest, prompt_tokens: list[int]
    ) -> None:
        self.request = request
        self._head = {
            "id": completion_id,
            "object": "text_completion",
            "created": created,
            "model": request.model,
        }
        self._prompt_tokens = prompt_tokens
        self._cached_tokens = [0] * len(prompt_tokens)

    def completion(self, output: RequestOutput, prompt_texts: Sequence[str]) -> Json:
        """The completion object of a finished request, whose outputs were merged.

        `prompt_texts` is read for an echo only.
        """
        self._note_prompts(output.prompts)
        prompts = {prompt.index: prompt for prompt in output.prompts}
        candidates = self.ranked(output)
        choices: list[Json] = []
        for candidate in candidates:
            prompt = prompts[candidate.prompt_index]
            choice = self._choice(len(choices), candidate)
            if self.request.echo:
                self._prepend(choice, prompt_texts[prompt.index], prompt, candidate)
            choice["prompt_logprobs"] = self._prompt_logprobs(prompt)
            choices.append(choice)
        return {**self._head, "choices": choices, "usage": self.usage(candidates)}

    def ranked(self, output: RequestOutput) -> list[CandidateOutput]:
        """The candidates to return: prompt by prompt, the n best of each, best first."""
        params = self.request.params
        candidates = [output.candidates[key] for key in sorted(output.candidates)]
        if not params.is_ranked:
            return candidates
        size = params.num_candidates
        groups = (candidates[at : at + size] for at in range(0, len(candidates), size))
        return [best for group in groups for best in _best(group, params.n)]

    def chunks(self, output: RequestOutput) -> list[Json]:
        """The chunks of a streamed request's output, one for each choice that gained something."""
        self._note_prompts(output.prompts)
        return [
            self._chunk(candidate)
            for candidate in output.candidates.values()
            if candidate.text or candidate.logprobs or candidate.finish_reason
        ]

    def events(self, output: RequestOutput) -> bytes:
        """The same chunks as events."""
        return b"".join(map(event, self.chunks(output)))

    def end(self, total: RequestOutput) -> bytes:
        """What ends a stream: the usage chunk if it was asked for, and [DONE]."""
        if not self.request.include_usage:
            return DONE
        usage = self.usage(total.candidates.values())
        return event({**self._head, "choices": [], "usage": usage}) + DONE

    def usage(self, candidates: Iterable[CandidateOutput]) -> Json:
        """Token counts of the request: each prompt once, and the returned choices."""
        completion_tokens = sum(candidate.num_tokens for candidate in candidates)
        return _usage(sum(self._prompt_tokens), completion_tokens, sum(self._cached_tokens))

    def _note_prompts(self, prompts: list[PromptOutput]) -> None:
        for prompt in prompts:
            self._cached_tokens[prompt.index] = prompt.cached_tokens

    def _chunk(self, candidate: CandidateOutput) -> Json:
        prompt = candidate.prompt_index
        usage = None
        if self.request.include_usage and self.request.continuous_usage:
            tokens, cached = self._prompt_tokens[prompt], self._cached_tokens[prompt]
            usage = _usage(tokens, candidate.num_tokens, cached)
        index = prompt * self.request.params.n + candidate.index
        return {**self._head, "choices": [self._choice(index, candidate)], "usage": usage}

    def _choice(self, index: int, candidate: CandidateOutput) -> Json:
        return {
            "index": index,
            "text": candidate.text,
            "logprobs": self._logprobs(candidate.logprobs),
            "finish_reason": candidate.finish_reason,
            "stop_reason": candidate.stop_reason,
        }

    def _prepend(
        self, choice: Json, text: str, prompt: PromptOutput, candidate: CandidateOutput
    ) -> None:
        """Put the prompt before the completion, in the text and in the logprobs."""
        choice["text"] = text + candidate.text
        if self.request.logprobs is not None:
            positions = [*(prompt.logprobs or []), *_shifted(candidate.logprobs, len(text))]
            choice["logprobs"] = self._logprobs(positions)

    def _logprobs(self, positions: list[TokenLogprob]) -> Json | None:
        k = self.request.logprobs
        if k is None:
            return None
        return {
            "tokens": [self._name(position) for position in positions],
            "token_logprobs": [_value(position.logprob) for position in positions],
            "top_logprobs": [self._top_logprobs(position, k) for position in positions],
            "text_offset": [position.text_offset for position in positions],
        }

    def _top_logprobs(self, position: TokenLogprob, k: int) -> dict[str, float] | None:
        """The token itself and the k most likely; its value stays if another id has its text."""
        if position.logprob is None:
            return None
        top = {self._name(position): max(position.logprob, MIN_LOGPROB)}
        for alternative in position.top[:k]:
            top.setdefault(self._name(alternative), max(alternative.logprob, MIN_LOGPROB))
        return top

    def _name(self, token: TokenLogprob | Alternative) -> str:
        if self.request.return_tokens_as_token_ids:
            return f"token_id:{token.token_id}"
        return token.token

    def _prompt_logprobs(self, prompt: PromptOutput) -> list[Json | None] | None:
        k = self.request.prompt_logprobs
        if k is None:
            return None
        return [_ranked_logprobs(position, k) for position in prompt.logprobs or []]


def _best(group: list[CandidateOutput], n: int) -> list[CandidateOutput]:
    """The n candidates with the highest summed logprobs; ties keep their order."""
    return sorted(group, key=lambda candidate: -candidate.cumulative_logprob)[:n]


def _shifted(positions: list[TokenLogprob], by: int) -> Iterator[TokenLogprob]:
    for position in positions:
        yield dataclasses.replace(position, text_offset=position.text_offset + by)


def _ranked_logprobs(position: TokenLogprob, k: int) -> Json | None:
    """The actual token first, then the k most likely, by id."""
    if position.logprob is None:
        return None
    entries = {str(position.token_id): _ranked(position, position.logprob, position.rank)}
    values = [alternative.logprob for alternative in position.top]
    for alternative in position.top[:k]:
        rank = 1 + values.index(alternative.logprob)  # they fall, so equals share the first's rank
        entry = _ranked(alternative, alternative.logprob, rank)
        entries.setdefault(str(alternative.token_id), entry)
    return entries


def _ranked(token: TokenLogprob | Alternative, logprob: float, rank: int | None) -> Json:
    return {"logprob": max(logprob, MIN_LOGPROB), "rank": rank, "decoded_token": token.token}


def _value(logprob: float | None) -> float | None:
    return None if logprob is None else max(logprob, MIN_LOGPROB)


def _usage(prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }
