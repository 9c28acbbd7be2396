"""A prompt's logprobs against those of all its positions at once."""

import numpy as np
import pytest

from engine.prompt_scorer import PromptScorer, text_offsets
from engine.request import Prompt
from engine.tokenizer import Tokenizer
from tests.engine.jobs import make_engine, request, run
from tests.engine.reference import Reference

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def reference(tiny_model):
    return Reference(tiny_model)


@pytest.fixture(scope="module")
def tokenizer(tiny_model):
    return Tokenizer(tiny_model.path)


def check(entries, ids, logprobs, k):
    """Compare entries with the logprobs (S, V) of the whole prompt."""
    assert [entry.token_id for entry in entries] == ids
    assert (entries[0].logprob, entries[0].rank, entries[0].top) == (None, None, ())
    for entry, values in zip(entries[1:], logprobs, strict=False):
        assert entry.logprob == pytest.approx(values[entry.token_id], abs=TOLERANCE)
        greater = values > values[entry.token_id] + TOLERANCE
        not_less = values > values[entry.token_id] - TOLERANCE
        assert 1 + greater.sum() <= entry.rank <= 1 + not_less.sum()
        most_likely = np.sort(values)[::-1][:k]
        assert [top.logprob for top in entry.top] == pytest.approx(most_likely, abs=TOLERANCE)
        for top in entry.top:
            assert top.logprob == pytest.approx(values[top.token_id], abs=TOLERANCE)


@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("chunk", [3, 8, 200])
def test_scores_equal_the_reference(tiny_model, reference, k, chunk):
    ids = [0, *np.random.default_rng(k).integers(2, 300, 29).tolist()]
    engine = make_engine(tiny_model, prefill_chunk=chunk)
    output = run(engine, request("a", ids, prompt_logprobs=k, max_tokens=1))["a"]
    check(output.prompts[0].logprobs, ids, reference.logprobs(ids), k)


def test_a_known_prompt_is_scored_as_a_whole(tiny_model, reference):
    ids = [0, *range(40, 60)]
    engine = make_engine(tiny_model)
    run(engine, request("first", ids, max_tokens=1))
    output = run(engine, request("again", ids, prompt_logprobs=2, max_tokens=1))["again"]
    check(output.prompts[0].logprobs, ids, reference.logprobs(ids), 2)


def test_several_prompts_each_have_their_own(tiny_model, reference):
    prompts = [[0, 5, 6], [7], [9, 8, 30, 31, 200]]
    output = run(make_engine(tiny_model), request("a", prompts, prompt_logprobs=1, n=2))["a"]
    for each in output.prompts:
        check(each.logprobs, prompts[each.index], reference.logprobs(prompts[each.index]), 1)


@pytest.mark.parametrize("sizes", [[6], [1, 5], [2, 3, 1], [1] * 6])
def test_chunks_do_not_matter(tokenizer, sizes):
    ids = [0, 50, 60, 50, 70, 51]
    logits = np.random.default_rng(1).normal(size=(len(ids), 300)).astype(np.float32)
    scorer, start = PromptScorer(Prompt(ids), 2, tokenizer), 0
    for size in sizes:
        scorer.score(logits[start : start + size], start)
        start += size
    wide = logits.astype(np.float64)
    check(scorer.entries, ids, wide - np.log(np.exp(wide).sum(axis=1, keepdims=True)), 2)


@pytest.mark.parametrize("text", ["the other cat", "a😀é b", "", "\n\n  x"])
def test_offsets_in_a_text(tokenizer, text):
    ids = tokenizer.encode(text)
    offsets = text_offsets(Prompt(ids, text), tokenizer)
    assert len(offsets) == len(ids)
    assert offsets[0] == 0  # <s>, which is not in the text
    for at, offset in enumerate(offsets[1:], 1):
        whole = b"".join(tokenizer.token_bytes[each] for each in ids[1:at])
        assert offset == len(whole.decode("utf-8", "ignore"))


def test_offsets_without_a_text(tokenizer):
    ids = [0, *tokenizer.encode("the cat", add_special_tokens=False)]
    offsets = text_offsets(Prompt(ids), tokenizer)
    assert offsets[:2] == [0, len("<s>")]


def test_nan_in_a_prompt_ends_its_own_request_only(tiny_model, monkeypatch):
    engine = make_engine(tiny_model)
    prefill = engine._decoder.prefill

    def broken(slot, chunks, length, wanted, logits):
        prefill(slot, chunks, length, wanted, logits)
        if chunks[0][0] == 9:
            logits[1] = np.nan

    monkeypatch.setattr(engine._decoder, "prefill", broken)
    outputs = run(
        engine,
        request("bad", [9] * 11, prompt_logprobs=1, max_tokens=3, ignore_eos=True),
        request("good", [8] * 11, prompt_logprobs=1, max_tokens=3, ignore_eos=True),
    )
    assert outputs["bad"].error
    assert not outputs["good"].error
    assert outputs["good"].candidates[0, 0].num_tokens == 3
    assert engine.stats().slots_in_use == 0
