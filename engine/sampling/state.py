"""What sampling must remember of one candidate."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.sampling_params import SamplingParams

Ids = NDArray[np.int64]


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
        self.counts: dict[int, int] = {}
        self.bias_ids: Ids = np.fromiter(params.logit_bias, np.int64)
        self.biases = np.fromiter(params.logit_bias.values(), np.float32)
        ends = {*eos_token_ids, *params.stop_token_ids} if params.min_tokens else set()
        self._end_ids: Ids = np.fromiter(sorted(ends), np.int64)
        repeats = params.repetition_penalty != 1
        self._prompt_ids = set(prompt_token_ids.tolist()) if repeats else set()

    @property
    def masked_ids(self) -> Ids:
        """Tokens that must not come yet: those that would end it before min_tokens."""
        return self._end_ids if self.step < self.params.min_tokens else self._end_ids[:0]

    @property
    def seen_ids(self) -> Ids:
        """Each token of the prompt or the output, once."""
        return np.fromiter(self._prompt_ids | self.counts.keys(), np.int64)

    @property
    def counts_tokens(self) -> bool:
        """Whether a penalty looks at the generated tokens."""
        params = self.params
        return bool(
            params.frequency_penalty or params.presence_penalty or params.repetition_penalty != 1
        )

    def append(self, token_id: int) -> None:
        """Take the token that was drawn."""
        self.step += 1
        if self.counts_tokens:
            self.counts[token_id] = self.counts.get(token_id, 0) + 1
