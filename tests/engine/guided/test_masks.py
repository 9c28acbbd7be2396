import threading

import pytest

from engine.guided.backend import Grammar, new_bitmask
from engine.guided.masks import MaskFiller

VOCABULARY = 70


class Only(Grammar):
    """Allows one token; remembers which thread asked."""

    can_end = is_finished = False

    def __init__(self, token):
        self.token = token
        self.thread = None

    def fill_bitmask(self, bitmask, row):
        self.thread = threading.current_thread()
        bitmask[row] = 0
        bitmask[row, self.token // 32] = 1 << self.token % 32

    def accept(self, token_id):
        return token_id == self.token

    def rollback(self, num_tokens):
        pass


@pytest.mark.parametrize("num_begun", range(6))
def test_rows_are_as_their_grammars_say_whenever_they_were_begun(num_begun):
    grammars = [None, Only(3), Only(40), None, Only(64)]
    expected = new_bitmask(5, VOCABULARY)
    for row, grammar in enumerate(grammars):
        if grammar:
            grammar.fill_bitmask(expected, row)
    masks = MaskFiller(VOCABULARY)
    masks.begin(grammars[:num_begun])
    assert (masks.finish(grammars) == expected).all()
    beside = [grammar for grammar in grammars[:num_begun] if grammar]
    assert all(grammar.thread is not threading.current_thread() for grammar in beside)


def test_no_constraint_needs_no_bitmask():
    masks = MaskFiller(VOCABULARY)
    masks.begin([None])
    assert masks.finish([None, None]) is None
    masks.begin([Only(1)])
    masks.finish([Only(1)])
    masks.begin([])
    assert masks.finish([None]) is None


def test_a_fault_beside_is_told():
    class Broken(Only):
        def fill_bitmask(self, bitmask, row):
            raise RuntimeError("broken")

    masks = MaskFiller(VOCABULARY)
    masks.begin([Broken(1)])
    with pytest.raises(RuntimeError, match="broken"):
        masks.finish([Broken(1)])
