"""The sampling pipeline of spec section 4, in its order.

raw logprobs -> bias -> penalties -> min_tokens mask -> grammar mask -> temperature -> top_k, top_p,
min_p -> draw. Work is done for the rows and fields in use alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.config import LogprobsMode
from engine.sampling.logprobs import log_sum_exp, top_tokens
from engine.sampling.noise import gumbel, stream_keys
from engine.sampling.state import CandidateState
from engine.sampling.truncation import truncate
from engine.sampling_params import SamplingParams

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
States = Sequence[CandidateState]

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_ADDED = np.where(_BITS, 0, -np.inf).astype(np.float32)
_GROUP = 256


@dataclass(slots=True)
class SamplerOutput:
    """Per row: the token, whether none was allowed (`exhausted`) or its logits were NaN (`broken`).

    `logprobs`, `top_ids` and `top_logprobs` are filled for rows that asked for them.
    """

    token_ids: Ids
    exhausted: NDArray[np.bool_]
    broken: NDArray[np.bool_]
    logprobs: Floats
    top_ids: list[Ids]
    top_logprobs: list[Floats]


class Sampler:
    """Samples batches over a vocabulary of `vocab_size` real tokens."""

    def __init__(self, vocab_size: int, logprobs_mode: LogprobsMode = "raw") -> None:
        self._vocab_size = vocab_size
        self._is_raw = logprobs_mode == "raw"
        # Kept from step to step, since fresh memory costs as much as the exponentials; what is
        # behind the vocabulary stays zero.
        self._masses = np.zeros((0, -(-vocab_size // _GROUP) * _GROUP), np.float32)

    def sample(
        self, logits: Floats, states: States, bitmask: NDArray[np.int32] | None = None
    ) -> SamplerOutput:
        """One token for each row of `logits` (R, V or wider), which is overwritten.

        `bitmask` (R, ceil(V / 32)) has bit t % 32 of word t // 32 set where token t is allowed.
        """
        logits = logits[:, : self._vocab_size]
        asking = [row for row, state in enumerate(states) if state.params.needs_logprobs]
        reported = logits[asking] if asking and self._is_raw else logits[:0]
        for row, state in enumerate(states):
            state.adjust(logits[row])
            if bitmask is not None:
                _forbid(logits[row], bitmask[row])
        tokens = np.asarray(logits.argmax(axis=1), np.int64)  # NaN counts as the largest
        best = logits[np.arange(len(tokens)), tokens]
        exhausted = best == -np.inf
        broken = ~np.isfinite(best) & ~exhausted
        drawn = ~(exhausted | broken | [state.params.is_greedy for state in states])
        self._redraw(np.flatnonzero(drawn), tokens, logits, states)
        if asking and not self._is_raw:
            reported = logits[asking]
        output = SamplerOutput(tokens, exhausted, broken, np.zeros(len(states), np.float32), [], [])
        _report(output, states, asking, reported)
        return output

    def _redraw(self, rows: Ids, tokens: Ids, logits: Floats, states: States) -> None:
        """Replace the most likely tokens of some rows by drawn ones."""
        if not len(rows):
            return
        if len(self._masses) < len(rows):
            self._masses = np.zeros((len(rows), self._masses.shape[1]), np.float32)
        masses = self._masses[: len(rows)]
        for row, mass in zip(rows, masses[:, : self._vocab_size], strict=True):
            _set_masses(mass, logits[row], logits[row, tokens[row]], states[row].params)
            if not self._is_raw:
                with np.errstate(divide="ignore"):
                    np.log(mass, out=logits[row])
        tokens[rows] = _draw(masses, [states[row] for row in rows])


def _forbid(row: Floats, bits: NDArray[np.int32]) -> None:
    """Minus infinity for the tokens that a row of the bitmask forbids, in place.

    A table of what a byte adds to eight logits is several times faster than a boolean index.
    """
    row += np.take(_ADDED, bits.view(np.uint8), axis=0).reshape(-1)[: len(row)]


def _set_masses(mass: Floats, row: Floats, best: np.float32, params: SamplingParams) -> None:
    """Probabilities (V,) relative to the largest, after temperature and truncation."""
    if not 0 < params.top_k < len(row):
        _weigh(mass, row, best, params)
        return
    ids = top_tokens(row, params.top_k)  # temperature keeps the order
    kept = np.empty(len(ids), np.float32)
    _weigh(kept, row[ids], best, params)
    mass.fill(0)
    mass[ids] = kept


def _weigh(masses: Floats, logits: Floats, best: np.float32, params: SamplingParams) -> None:
    np.subtract(logits, best, out=masses)
    if params.temperature != 1:
        masses /= np.float32(params.temperature)
    np.exp(masses, out=masses)
    truncate(masses, params)


def _draw(masses: Floats, states: States) -> Ids:
    """Gumbel-max in two stages: a group of tokens by its summed mass, then a token within it.

    It is exact, needs little noise, and unlike an inverse of the cumulated mass it changes with
    rounding only where two candidates for the maximum are within rounding of each other.
    """
    masses = masses.reshape(len(states), _GROUP, -1)
    num_groups = masses.shape[2]
    streams = [(state.seed, state.candidate, state.step) for state in states]
    seeds, candidates, steps = np.array(streams, np.uint64).T
    every = np.arange(len(states))
    with np.errstate(divide="ignore", over="ignore"):
        first = gumbel(stream_keys(seeds, candidates, steps, 1), num_groups)
        group = (np.log(masses.sum(axis=1)) + first).argmax(axis=1)
        second = gumbel(stream_keys(seeds, candidates, steps, 2), _GROUP)
        member = (np.log(masses[every, :, group]) + second).argmax(axis=1)
    return np.asarray(member * num_groups + group, np.int64)


def _report(output: SamplerOutput, states: States, asking: list[int], reported: Floats) -> None:
    output.top_ids = [np.empty(0, np.int64)] * len(states)
    output.top_logprobs = [np.empty(0, np.float32)] * len(states)
    if not asking:
        return
    for row, values, total in zip(asking, reported, log_sum_exp(reported), strict=True):
        output.logprobs[row] = values[output.token_ids[row]] - total
        if k := states[row].params.logprobs:
            ids = top_tokens(values, k)
            output.top_ids[row] = ids
            output.top_logprobs[row] = values[ids] - total
