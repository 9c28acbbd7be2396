"""What tests ask of a grammar, each answer checked against the bitmask on the way."""

import numpy as np

from engine.guided.backend import new_bitmask


def allowed(grammar, vocabulary):
    """The ids that the bitmask allows."""
    bitmask = new_bitmask(1, vocabulary.vocab_size)
    grammar.fill_bitmask(bitmask, 0)
    bits = np.unpackbits(bitmask.view(np.uint8), bitorder="little")
    assert not bits[vocabulary.vocab_size :].any()
    return set(np.flatnonzero(bits).tolist())


def follow(grammar, vocabulary, text):
    """Accept a text token by token; whether it was accepted."""
    for token in vocabulary.encode(text):
        is_allowed = token in allowed(grammar, vocabulary)
        assert grammar.accept(token) == is_allowed
        if not is_allowed:
            return False
    return True


def matches(compiled_grammar, vocabulary, text):
    """Whether a text is complete; then, and only then, may EOS follow it."""
    grammar = compiled_grammar.start()
    if not follow(grammar, vocabulary, text):
        return False
    next_ids = allowed(grammar, vocabulary)
    eos = set(vocabulary.eos_token_ids)
    assert next_ids & eos == (eos if grammar.can_end else set())
    assert not grammar.is_finished or next_ids <= eos
    return grammar.can_end
