"""A candidate's text, token by token, against a reference that looks at the whole text each time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.candidate_text import CandidateText
from engine.outputs import TokenLogprob
from engine.sampling_params import SamplingParams
from engine.tokenizer import Tokenizer

LETTERS = "ab"
TOKENS = [b"a", b"b", b"ab", b"ba", b"abb", "é".encode()[:1], "é".encode()[1:], b"<s>"]
SPECIAL = len(TOKENS) - 1


class LetterTokenizer:
    token_bytes = TOKENS

    def is_special(self, token_id):
        return token_id == SPECIAL


IDS = st.lists(st.integers(0, SPECIAL), max_size=12)
STOPS = st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=3)


def text_of(ids):
    """The certain text of some tokens: all but an é that has only begun."""
    return bytes_of(ids).removesuffix("é".encode()[:1]).decode("utf-8", "replace")


def bytes_of(ids):
    return b"".join(TOKENS[token_id] for token_id in ids if token_id != SPECIAL)


def expected(ids, stops, min_tokens, include):
    """Text, stop string and number of tokens, by searching anew after every token."""
    for count in range(min_tokens + 1, len(ids) + 1):
        text, known = text_of(ids[:count]), text_of(ids[:min_tokens])
        hits = [
            (at, -len(stop), stop)
            for stop in stops
            for at in range(len(text))
            if text.startswith(stop, at) and at + len(stop) > len(known)
        ]
        if hits:
            start, _, stop = min(hits)
            return text[: start + len(stop) if include else start], stop, count
    return bytes_of(ids).decode("utf-8", "replace"), None, len(ids)


@settings(max_examples=400)
@given(IDS, STOPS, st.integers(0, 6), st.booleans())
def test_released_text_and_logprobs(ids, stops, min_tokens, include):
    whole, found, count = expected(ids, stops, min_tokens, include)
    params = SamplingParams(
        stop=tuple(stops), min_tokens=min_tokens, include_stop_str_in_output=include
    )
    candidate = CandidateText(params, LetterTokenizer())
    text, entries = "", []
    for number, token_id in enumerate(ids[:count], 1):
        assert candidate.offset == len(text_of(ids[: number - 1]))
        candidate.append(token_id, TokenLogprob(token_id, "", 0.0, candidate.offset))
        piece, due = candidate.take(final=False)
        assert (candidate.found is not None) == (found is not None and number == count)
        text += piece
        entries += due
        assert whole.startswith(text)
        assert all(entry.text_offset <= len(text) for entry in entries)
    candidate.finish()
    piece, due = candidate.take(final=True)
    assert text + piece == whole
    assert candidate.found == found
    offsets = [min(len(text_of(ids[:number])), len(whole)) for number in range(count)]
    assert [entry.text_offset for entry in entries + due] == offsets
    assert [entry.token_id for entry in entries + due] == ids[:count]


def test_without_stop_strings_nothing_is_held_back():
    candidate = CandidateText(SamplingParams(), LetterTokenizer())
    for token_id in (0, 4, 2):
        candidate.append(token_id, None)
        assert candidate.take(final=False)[0] == TOKENS[token_id].decode()


def test_a_token_that_is_not_shown_has_no_text():
    candidate = CandidateText(SamplingParams(), LetterTokenizer())
    candidate.append(0, None)
    candidate.append(1, None, shown=False)
    candidate.finish()
    assert candidate.take(final=True)[0] == "a"


@pytest.mark.parametrize("text", ["the cat sat", "näïve 😀 ✓", "\n\n  x\t"])
def test_text_equals_the_tokenizers_own(tiny_model, text):
    tokenizer = Tokenizer(tiny_model.path)
    ids = tokenizer.encode(text, add_special_tokens=False)
    candidate, released = CandidateText(SamplingParams(), tokenizer), ""
    for token_id in ids:
        candidate.append(token_id, None)
        released += candidate.take(final=False)[0]
    assert released == tokenizer.decode(ids) == text
