"""A text that comes by the character is cut like its shortest part that holds a stop string."""

from hypothesis import given
from hypothesis import strategies as st

from engine.detokenizer import Detokenizer
from engine.stop_strings import StopStrings

TEXT = st.text("abc", max_size=20)


def cut(text, stops, include):
    hits = [(text.find(s), -len(s), s) for s in stops if s in text]
    if not hits:
        return text, None
    start, _, stop = min(hits)
    return text[: start + len(stop) if include else start], stop


@given(TEXT, st.lists(st.text("abc", min_size=1, max_size=4), max_size=3), st.booleans())
def test_streamed_equals_whole(text, stops, include):
    parts = [text[:size] for size in range(len(text) + 1)]
    shortest = next((part for part in parts if any(stop in part for stop in stops)), text)
    whole, found = cut(shortest, stops, include)
    finder = StopStrings(tuple(stops), include=include)
    released = ""
    for character in text:
        released += finder.push(character)
        assert whole.startswith(released)
        if finder.found:
            break
    assert released + finder.flush() == whole
    assert finder.found == found


def test_an_occurrence_that_was_complete_before_never_fires():
    finder = StopStrings(("ab",), include=False)
    assert finder.pass_through("xab") == "xab"
    assert finder.push("c") == "c"
    assert finder.found is None


@given(st.lists(st.binary(max_size=4), max_size=12))
def test_detokenizer_gives_the_whole_text(pieces):
    detokenizer = Detokenizer(pieces)
    text = "".join(detokenizer.append(i) for i in range(len(pieces)))
    assert text + detokenizer.flush() == b"".join(pieces).decode("utf-8", "replace")
