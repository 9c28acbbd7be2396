"""top_k, top_p and min_p without sorting what they drop (spec section 4, step 8)."""

import numpy as np
from numpy.typing import NDArray

from engine.sampling.logprobs import lower_bound
from engine.sampling_params import SamplingParams

Floats = NDArray[np.float32]

_LEVELS = (2.0**-5, 2.0**-9, 2.0**-14, 0.0)


def truncate(masses: Floats, params: SamplingParams) -> None:
    """Set to zero what truncation drops of a row (V,) of probabilities relative to the largest.

    top_k, then top_p, then min_p; each keeps at least one token.
    """
    has_top_k = 0 < params.top_k < len(masses)
    if has_top_k or params.top_p < 1:
        kept = _largest(masses, params.top_k) if has_top_k else _heaviest(masses, params.top_p)
        if params.top_p < 1:
            total = kept.sum() if has_top_k else masses.sum()
            crossing = np.searchsorted(np.cumsum(kept, dtype=np.float64), params.top_p * total)
            kept = kept[: int(crossing) + 1]
        _keep(masses, len(kept), kept[-1])
    if params.min_p > 0:
        masses[masses < np.float32(params.min_p)] = 0


def _largest(masses: Floats, k: int) -> Floats:
    """The k largest, largest first."""
    return np.sort(masses[masses >= lower_bound(masses, k)])[::-1][:k]


def _heaviest(masses: Floats, share: float) -> Floats:
    """The largest that together hold at least this share, largest first."""
    wanted = share * masses.sum()
    for level in _LEVELS:
        kept = masses[masses > level]
        if kept.sum() >= wanted:
            break
    return np.sort(kept)[::-1]


def _keep(masses: Floats, count: int, least: float) -> None:
    """Keep the `count` largest, of which `least` is the smallest; the lower id wins a tie."""
    ids = np.flatnonzero(masses >= least)
    surplus = len(ids) - count
    if surplus:
        tied = np.flatnonzero(masses[ids] == least)
        ids = np.delete(ids, tied[len(tied) - surplus :])
    values = masses[ids]
    masses.fill(0)
    masses[ids] = values
