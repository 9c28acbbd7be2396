"""Log-softmax, and the most likely tokens of a row."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


class PromptLogprobs(NamedTuple):
    """For S positions: the actual tokens' logprobs and ranks (S,), the k most likely (S, k)."""

    logprobs: Floats
    ranks: Ids
    top_ids: Ids
    top_logprobs: Floats


def log_softmax(logits: Floats) -> Floats:
    """Over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(total), np.float32)


def top_tokens(values: Floats, k: int) -> Ids:
    """The k largest of each row of (R, V), largest first, the lower id on ties: shape (R, k)."""
    best = np.argpartition(-values, min(k, values.shape[1] - 1), axis=1)[:, :k]
    best.sort(axis=1)
    order = np.argsort(-np.take_along_axis(values, best, 1), axis=1, kind="stable")
    return np.take_along_axis(best, order, 1)


def prompt_logprobs(logits: Floats, actual_ids: Ids, k: int) -> PromptLogprobs:
    """Reduce the logits (S, V) that predict `actual_ids` (S,) to what is reported of them."""
    values = log_softmax(logits)
    chosen = np.take_along_axis(values, actual_ids[:, None], 1)
    ranks = 1 + (values > chosen).sum(axis=1)
    top_ids = top_tokens(values, k) if k else np.empty((len(values), 0), np.int64)
    top = np.take_along_axis(values, top_ids, 1)
    return PromptLogprobs(chosen[:, 0], ranks, top_ids, top)
