"""Guided decoding: constraints on the text of a completion (spec section 5).

A `Backend` compiles a constraint for a tokenizer, `GrammarCompiler` does so in the background and
remembers the results, a `Grammar` is one candidate's place in a compiled constraint.
"""
