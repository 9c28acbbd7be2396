"""What sampling must remember of one candidate."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.sampling_params import SamplingParams

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]


class CandidateState:
    """A candidate's parameters, its stream of noise, and which tokens it has so far."""

    def __init__(
        self,
        params: SamplingParams,
        candidate: int,
        seed: int,
        prompt_token_ids: NDArray[np.int32],
        eos_token_ids: Sequence[int],
    ) -> None:
        self.params = params
        self.candidate = candidate
        self.seed = seed
        self.step = 0
        self.bias_ids: Ids = np.fromiter(params.logit_bias, np.int64)
        self.biases = np.fromiter(params.logit_bias.values(), np.float32)
        ends = {*eos_token_ids, *params.stop_token_ids} if params.min_tokens else set()
        self._end_ids: Ids = np.fromiter(sorted(ends), np.int64)
        self.penalties = _penalties(params, prompt_token_ids)

    @property
    def masked_ids(self) -> Ids:
        """Tokens that must not come yet: those that would end it before min_tokens."""
        return self._end_ids if self.step < self.params.min_tokens else self._end_ids[:0]

    def append(self, token_id: int) -> None:
        """Take the token that was drawn."""
        self.step += 1
        if self.penalties:
            self.penalties.count(token_id)

    def adjust(self, row: Floats) -> None:
        """Bias, penalties and the min_tokens mask on the logits (V,), in place."""
        if len(self.bias_ids):
            row[self.bias_ids] += self.biases
        if self.penalties:
            self.penalties.apply(row)
        row[self.masked_ids] = -np.inf


class Penalties:
    """The three penalties of spec section 2, over the tokens that they concern.

    Those are the generated tokens, and the prompt's where there is a repetition penalty. They are
    kept in arrays that grow, so that a step costs nothing per token of the vocabulary.
    """

    def __init__(self, params: SamplingParams, prompt_ids: Ids) -> None:
        self._repetition = np.float32(params.repetition_penalty)
        self._frequency = np.float32(params.frequency_penalty)
        self._presence = np.float32(params.presence_penalty)
        self._places = {token_id: place for place, token_id in enumerate(prompt_ids.tolist())}
        self._ids: Ids = np.empty(len(prompt_ids) + params.max_tokens, np.int64)
        self._ids[: len(prompt_ids)] = prompt_ids
        self._counts = np.zeros(len(self._ids), np.float32)

    def count(self, token_id: int) -> None:
        """One more of this token was generated."""
        place = self._places.setdefault(token_id, len(self._places))
        self._ids[place] = token_id
        self._counts[place] += 1

    def apply(self, row: Floats) -> None:
        """Repetition, then frequency, then presence, on the logits (V,)."""
        size = len(self._places)
        ids, counts = self._ids[:size], self._counts[:size]
        values = row[ids]
        if self._repetition != 1:
            values = np.where(values > 0, values / self._repetition, values * self._repetition)
        row[ids] = values - counts * self._frequency - (counts > 0) * self._presence


def _penalties(params: SamplingParams, prompt_ids: NDArray[np.int32]) -> Penalties | None:
    if params.repetition_penalty != 1:
        return Penalties(params, np.unique(prompt_ids).astype(np.int64))
    if params.frequency_penalty or params.presence_penalty:
        return Penalties(params, np.empty(0, np.int64))
    return None
