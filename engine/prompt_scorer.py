"""The logprobs of a prompt's own tokens (spec section 6)."""

import numpy as np
from numpy.typing import NDArray

from engine.detokenizer import Detokenizer
from engine.outputs import Alternative, TokenLogprob
from engine.request import Prompt
from engine.sampling import prompt_logprobs
from engine.tokenizer import Tokenizer


class PromptScorer:
    """Reduces a prompt's logits chunk by chunk, so that they are never held whole."""

    def __init__(self, prompt: Prompt, k: int, tokenizer: Tokenizer) -> None:
        self._ids = list(prompt.token_ids)
        self._k = k
        self._name = tokenizer.token_name
        self._offsets = text_offsets(prompt, tokenizer)
        first = self._ids[0]
        self.entries = [TokenLogprob(first, self._name(first), None, self._offsets[0])]

    def score(self, logits: NDArray[np.float32], start: int) -> None:
        """Take the logits (S, V) of the positions from `start` on, which predict the next ones."""
        actual = self._ids[start + 1 : start + 1 + len(logits)]
        if not actual:
            return
        scores = prompt_logprobs(logits[: len(actual)], np.array(actual), self._k)
        for row, token_id in enumerate(actual):
            tops = zip(scores.top_ids[row].tolist(), scores.top_logprobs[row].tolist(), strict=True)
            entry = TokenLogprob(
                token_id,
                self._name(token_id),
                float(scores.logprobs[row]),
                self._offsets[start + 1 + row],
                tuple(Alternative(each, self._name(each), value) for each, value in tops),
                int(scores.ranks[row]),
            )
            self.entries.append(entry)


def text_offsets(prompt: Prompt, tokenizer: Tokenizer) -> list[int]:
    """Where each token begins in the prompt's text; tokens put before the text have no width."""
    detokenizer = Detokenizer(tokenizer.token_bytes)
    offsets, length = [], 0
    for token_id in prompt.token_ids:
        offsets.append(length)
        length += len(detokenizer.append(token_id))
    length += len(detokenizer.flush())
    size = length if prompt.text is None else len(prompt.text)
    return [min(max(offset - (length - size), 0), size) for offset in offsets]
