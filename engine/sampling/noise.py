"""Counter-based noise: a candidate's draws depend on its seed, its number and the step alone."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Floats = NDArray[np.float32]


def gumbel(keys: Words, size: int) -> Floats:
    """Standard Gumbel noise of shape (R, size) from one key per row."""
    counters = np.arange(1, size + 1, dtype=np.uint64)
    words = _mix(keys[:, None] + counters * np.uint64(0x9E3779B97F4A7C15))
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return (-np.log(-np.log(uniform))).astype(np.float32)


def stream_keys(seeds: Words, candidates: Words, steps: Words, stage: int) -> Words:
    """One key per row; every argument changes it in all bits."""
    keys = _mix(seeds)
    for part in (candidates, steps):
        keys = _mix(keys ^ (part + np.uint64(1)) * np.uint64(0xD1342543DE82EF95))
    return _mix(keys + np.uint64(stage))


def _mix(words: Words) -> Words:
    """The finalizer of splitmix64 (Steele, Lea, Flood 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
