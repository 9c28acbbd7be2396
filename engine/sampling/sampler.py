"""The sampling pipeline of spec section 4, in its order.

raw logprobs -> bias -> penalties -> min_tokens mask -> grammar mask -> temperature -> top_k, top_p,
min_p -> draw. Work is done for the rows and fields in use alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.config import LogprobsMode
from engine.sampling.logprobs import log_softmax, top_tokens
from engine.sampling.noise import gumbel, stream_keys
from engine.sampling.state import CandidateState

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
States = Sequence[CandidateState]

_BLOCK = 256


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

    def sample(
        self, logits: Floats, states: States, bitmask: NDArray[np.int32] | None = None
    ) -> SamplerOutput:
        """One token for each row of `logits` (R, V or wider), which is overwritten.

        `bitmask` (R, ceil(V / 32)) has bit t % 32 of word t // 32 set where token t is allowed.
        """
        logits = logits[:, : self._vocab_size]
        broken = np.isnan(logits.max(axis=1))
        logits[broken] = 0
        asking = [row for row, state in enumerate(states) if state.params.needs_logprobs]
        reported = log_softmax(logits[asking]) if asking and self._is_raw else None
        for row, state in enumerate(states):
            _adjust(logits[row], state)
        if bitmask is not None:
            logits[~_allowed(bitmask, self._vocab_size)] = -np.inf
        exhausted = np.isneginf(logits.max(axis=1))
        logits[exhausted] = 0
        tokens = self._choose(logits, states)
        if asking and reported is None:
            reported = log_softmax(logits[asking])
        output = SamplerOutput(tokens, exhausted, broken, np.zeros(len(states), np.float32), [], [])
        _report(output, states, asking, reported)
        return output

    def _choose(self, logits: Floats, states: States) -> Ids:
        drawn = [row for row, state in enumerate(states) if not state.params.is_greedy]
        if not drawn:
            return np.asarray(logits.argmax(axis=1), np.int64)
        for row in drawn:
            logits[row] /= np.float32(states[row].params.temperature)
            _truncate(logits[row], states[row])
        tokens = np.empty(len(states), np.int64)
        greedy = np.setdiff1d(np.arange(len(states)), drawn)
        tokens[greedy] = logits[greedy].argmax(axis=1)
        tokens[drawn] = _draw(logits[drawn], [states[row] for row in drawn])
        return tokens


def _adjust(row: Floats, state: CandidateState) -> None:
    """Bias, penalties and the min_tokens mask of one row (V,), in place."""
    params = state.params
    if len(state.bias_ids):
        row[state.bias_ids] += state.biases
    if params.repetition_penalty != 1:
        seen = state.seen_ids
        values, penalty = row[seen], np.float32(params.repetition_penalty)
        row[seen] = np.where(values > 0, values / penalty, values * penalty)
    if state.counts and (params.frequency_penalty or params.presence_penalty):
        ids = np.fromiter(state.counts, np.int64)
        counts = np.fromiter(state.counts.values(), np.float32)
        row[ids] -= counts * params.frequency_penalty + params.presence_penalty
    row[state.masked_ids] = -np.inf


def _allowed(bitmask: NDArray[np.int32], size: int) -> NDArray[np.bool_]:
    bits = np.unpackbits(bitmask.view(np.uint8), axis=1, bitorder="little")
    return bits[:, :size].astype(np.bool_)


def _truncate(row: Floats, state: CandidateState) -> None:
    """top_k, then top_p, then min_p on one row (V,); each keeps at least one token."""
    params = state.params
    if 0 < params.top_k < len(row):
        kept = top_tokens(row[None], params.top_k)[0]
        values = row[kept]
        row.fill(-np.inf)
        row[kept] = values
    if params.top_p < 1:
        order = np.argsort(-row, kind="stable")
        mass = np.cumsum(np.exp(log_softmax(row[order])), dtype=np.float64)
        row[order[1 + int(np.searchsorted(mass, params.top_p)) :]] = -np.inf
    if params.min_p > 0:
        row[row < row.max() + np.log(np.float32(params.min_p))] = -np.inf


def _draw(logits: Floats, states: States) -> Ids:
    """Gumbel-max in two stages: a block of tokens by its summed mass, then a token within it.

    It is exact, needs little noise, and unlike an inverse of the cumulated mass it changes with
    rounding only where two candidates for the maximum are within rounding of each other.
    """
    rows, size = logits.shape
    blocks = -(-size // _BLOCK)
    mass = np.zeros((rows, blocks * _BLOCK), np.float32)
    np.exp(logits - logits.max(axis=1, keepdims=True), out=mass[:, :size])
    mass = mass.reshape(rows, blocks, _BLOCK)
    streams = [(state.seed, state.candidate, state.step) for state in states]
    seeds, candidates, steps = np.array(streams, np.uint64).T
    every = np.arange(rows)
    with np.errstate(divide="ignore", over="ignore"):
        first = gumbel(stream_keys(seeds, candidates, steps, 1), blocks)
        block = (np.log(mass.sum(axis=2)) + first).argmax(axis=1)
        second = gumbel(stream_keys(seeds, candidates, steps, 2), _BLOCK)
        token = (np.log(mass[every, block]) + second).argmax(axis=1)
    return np.asarray(block * _BLOCK + token, np.int64)


def _report(
    output: SamplerOutput, states: States, asking: list[int], reported: Floats | None
) -> None:
    output.top_ids = [np.empty(0, np.int64)] * len(states)
    output.top_logprobs = [np.empty(0, np.float32)] * len(states)
    if reported is None:
        return
    for values, row in zip(reported, asking, strict=True):
        output.logprobs[row] = values[output.token_ids[row]]
        if k := states[row].params.logprobs:
            output.top_ids[row] = top_tokens(values[None], k)[0]
            output.top_logprobs[row] = values[output.top_ids[row]]
