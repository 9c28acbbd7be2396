"""The vectorized pipeline against a slow and obvious one."""

import numpy as np
import pytest

from engine.sampling import CandidateState, Sampler, prompt_logprobs
from engine.sampling_params import SamplingParams

VOCAB = 700


def state(seed=0, candidate=0, prompt=(1, 2), generated=(), **params):
    made = CandidateState(
        SamplingParams(**params), candidate, seed, np.array(prompt, np.int32), [0]
    )
    for token in generated:
        made.append(token)
    return made


def logits(rows=1, width=VOCAB + 4):
    return np.random.default_rng(1).normal(size=(rows, width), scale=3).astype(np.float32)


def allowed_by_reference(row, params):
    """The tokens that truncation keeps, one after another."""
    probabilities = np.exp(row - row.max())
    probabilities /= probabilities.sum()
    order = sorted(range(len(row)), key=lambda token: (-row[token], token))
    if params.top_k > 0:
        order = order[: params.top_k]
    total = sum(probabilities[order])
    kept, mass = [], 0.0
    for token in order:
        kept.append(token)
        mass += probabilities[token] / total
        if mass >= params.top_p:
            break
    return {t for t in kept if probabilities[t] >= params.min_p * probabilities[kept[0]] * 0.9999}


@pytest.mark.parametrize(
    "params",
    [{"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.3}, {"top_k": 9, "top_p": 0.7, "min_p": 0.1}],
)
def test_draws_stay_in_what_truncation_keeps(params):
    row = logits()[0, :VOCAB]
    allowed = allowed_by_reference(row, SamplingParams(**params))
    states = [state(seed=seed, **params) for seed in range(400)]
    drawn = set(Sampler(VOCAB).sample(np.tile(row, (400, 1)), states).token_ids.tolist())
    assert drawn <= allowed
    assert len(drawn) > min(len(allowed), 2) - 1


def test_draws_follow_the_softmax():
    row = np.full(VOCAB, -20, np.float32)
    row[[3, 300, 650]] = np.log([0.5, 0.3, 0.2])
    states = [state(seed=seed) for seed in range(6000)]
    tokens = Sampler(VOCAB).sample(np.tile(row, (6000, 1)), states).token_ids
    shares = [(tokens == token).mean() for token in (3, 300, 650)]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.03)


def test_a_draw_does_not_depend_on_its_neighbours():
    rows = logits(6)
    together = Sampler(VOCAB).sample(rows.copy(), [state(seed=i, top_p=0.9) for i in range(6)])
    for i in range(6):
        alone = Sampler(VOCAB).sample(rows[i : i + 1].copy(), [state(seed=i, top_p=0.9)])
        assert alone.token_ids[0] == together.token_ids[i]


def test_penalties_and_bias_in_the_spec_order():
    row = np.zeros((1, VOCAB), np.float32)
    row[0, [5, 6, 7]] = [4.0, 3.0, 1.0]
    params = {"frequency_penalty": 1.0, "presence_penalty": 0.5, "repetition_penalty": 2.0}
    # 5 twice: 4 / 2 - 2 - 0.5 < 0; 6: (3 + 1) / 1 = 4; 7 is in the prompt: (1 + 8) / 2 = 4.5
    chosen = state(prompt=(7,), generated=(5, 5), temperature=0, logit_bias={6: 1, 7: 8}, **params)
    assert Sampler(VOCAB).sample(row, [chosen]).token_ids[0] == 7


def test_padding_columns_are_no_tokens_and_ties_take_the_lowest_id():
    row = np.zeros((1, VOCAB + 4), np.float32)
    row[0, VOCAB:] = 99
    row[0, [40, 50]] = 1
    assert Sampler(VOCAB).sample(row, [state(temperature=0)]).token_ids[0] == 40


def test_logprobs_are_those_of_the_raw_logits():
    rows = logits(2)
    states = [state(temperature=0, logprobs=4, logit_bias={9: 100}), state(temperature=0)]
    raw = rows[0, :VOCAB].astype(np.float64)
    expected = raw - np.log(np.exp(raw).sum())
    output = Sampler(VOCAB).sample(rows, states)
    assert output.token_ids[0] == 9
    assert output.logprobs[0] == pytest.approx(expected[9], abs=1e-4)
    assert output.top_ids[0].tolist() == np.argsort(-expected)[:4].tolist()
    assert len(output.top_ids[1]) == 0


def test_exhausted_and_broken_rows_are_told_apart():
    rows = logits(3)
    rows[1, 4] = np.nan
    bitmask = np.full((3, -(-VOCAB // 32)), -1, np.int32)
    bitmask[2] = 0
    output = Sampler(VOCAB).sample(rows, [state(seed=i) for i in range(3)], bitmask)
    assert output.exhausted.tolist() == [False, False, True]
    assert output.broken.tolist() == [False, True, False]


def test_bitmask_allows_its_tokens_only():
    bitmask = np.zeros((1, -(-VOCAB // 32)), np.int32)
    bitmask[0, 65 // 32] = 1 << 65 % 32
    assert Sampler(VOCAB).sample(logits(), [state()], bitmask).token_ids[0] == 65


def test_prompt_logprobs_have_ranks():
    rows = logits(5, VOCAB)
    actual = np.array([3, 9, 100, 5, 6])
    scored = prompt_logprobs(rows.copy(), actual, 3)
    for row, token, rank, top in zip(rows, actual, scored.ranks, scored.top_ids, strict=True):
        assert rank == 1 + (row > row[token]).sum()
        assert top.tolist() == np.argsort(-row)[:3].tolist()
