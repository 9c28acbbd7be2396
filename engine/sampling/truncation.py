"""top_p and min_p without sorting what they drop (spec section 4, step 8)."""

import numpy as np
from numpy.typing import NDArray

from engine.sampling_params import SamplingParams

Floats = NDArray[np.float32]

_LEVELS = (2.0**-5, 2.0**-9, 2.0**-14, 0.0)


def truncate(masses: Floats, params: SamplingParams) -> None:
    """Set to zero what top_p, then min_p, drops; each keeps at least one token.

    `masses` are the probabilities relative to the largest of all tokens or of the top_k.
    """
    if params.top_p < 1:
        wanted = params.top_p * masses.sum()
        kept = _heaviest(masses, wanted)
        count = int(np.searchsorted(np.cumsum(kept, dtype=np.float64), wanted)) + 1
        kept = kept[:count]
        _keep(masses, len(kept), kept[-1])
    if params.min_p > 0:
        masses[masses < np.float32(params.min_p)] = 0


def _heaviest(masses: Floats, wanted: float) -> Floats:
    """The largest that together hold at least this mass, largest first."""
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
