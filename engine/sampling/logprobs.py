"""Log-softmax, and the most likely tokens of a row."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

_GROUP = 64


class PromptLogprobs(NamedTuple):
    """For S positions: the actual tokens' logprobs and ranks (S,), the k most likely (S, k)."""

    logprobs: Floats
    ranks: Ids
    top_ids: Ids
    top_logprobs: Floats


def log_sum_exp(logits: Floats) -> Floats:
    """The logarithm of the softmax's denominator for each row of (R, V): shape (R,).

    Row by row, for a row fits into the processor's cache and a batch doesn't.
    """
    masses = np.empty_like(logits[0])
    totals = []
    for row in logits:
        best = row.max()
        np.subtract(row, best, out=masses)
        np.exp(masses, out=masses)
        totals.append(best + np.log(masses.sum()))
    return np.array(totals, np.float32)


def lower_bound(values: Floats, k: int) -> float:
    """A value that at least k of (V,) reach, and seldom many more.

    It is the k-th largest maximum of disjoint groups. They are strided, not consecutive, since
    NumPy reduces over the first axis eight times as fast.
    """
    whole = len(values) // _GROUP * _GROUP
    maxima = values[:whole].reshape(_GROUP, -1).max(axis=0)
    return float(np.partition(maxima, -k)[-k]) if k <= len(maxima) else -np.inf


def top_tokens(values: Floats, k: int) -> Ids:
    """The k largest of (V,), largest first and the lower id first on ties."""
    ids = np.flatnonzero(values >= lower_bound(values, k))
    return ids[np.argsort(-values[ids], kind="stable")[:k]]


def prompt_logprobs(logits: Floats, actual_ids: Ids, k: int) -> PromptLogprobs:
    """Reduce the logits (S, V) that predict `actual_ids` (S,) to what is reported of them."""
    total = log_sum_exp(logits)
    chosen = logits[np.arange(len(logits)), actual_ids]
    ranks = 1 + (logits > chosen[:, None]).sum(axis=1)
    top_ids = np.empty((len(logits), k), np.int64)
    if k:
        for ids, row in zip(top_ids, logits, strict=True):
            ids[:] = top_tokens(row, k)
    top = np.take_along_axis(logits, top_ids, 1) - total[:, None]
    return PromptLogprobs(chosen - total, ranks, top_ids, top)
