"""Text comes as soon as it is certain, and never changes afterwards."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.detokenizer import Detokenizer


def cut(data, cuts):
    """Split bytes at these places."""
    places = [0, *sorted(min(place, len(data)) for place in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def pieces_of(tokens):
    """What each token's append gives, and what is left at the end."""
    detokenizer = Detokenizer(tokens)
    return [detokenizer.append(token_id) for token_id in range(len(tokens))], detokenizer.flush()


@given(st.text(max_size=20), st.lists(st.integers(0, 80), max_size=12))
def test_characters_come_when_they_are_whole(text, cuts):
    tokens = cut(text.encode(), cuts)
    pieces, rest = pieces_of(tokens)
    assert rest == ""
    for count in range(len(tokens) + 1):
        complete = b"".join(tokens[:count]).decode("utf-8", "ignore")
        assert "".join(pieces[:count]) == complete


@given(st.binary(max_size=30), st.lists(st.integers(0, 30), max_size=8))
def test_bytes_that_are_no_text_become_replacement_characters(data, cuts):
    pieces, rest = pieces_of(cut(data, cuts))
    assert "".join(pieces) + rest == data.decode("utf-8", "replace")
