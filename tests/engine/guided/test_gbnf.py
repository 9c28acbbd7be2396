import itertools
import re

import pytest

from engine.guided.backend import ConstraintError
from engine.guided.gbnf import (
    CharacterSet,
    Choice,
    Literal,
    Reference,
    Repeat,
    Sequence,
    is_gbnf,
    parse_gbnf,
)
from engine.guided.lark import gbnf_to_lark
from tests.engine.guided.follow import matches


def times_of(suffix):
    if suffix in "*+?":
        return {"*": (0, 4), "+": (1, 4), "?": (0, 1)}[suffix]
    least, comma, most = suffix[1:-1].partition(",")
    return int(least), int(most) if most else (4 if comma else int(least))


def derive(rules, node, length):
    """A slow reference: all texts over "abc" of up to a length that a node derives."""
    match node:
        case Literal(text):
            return {text} if len(text) <= length else set()
        case CharacterSet(ranges, negated):
            inside = {c for c in "abc" if any(a <= c <= b for a, b in ranges)}
            return (set("abc") - inside if negated else inside) if length else set()
        case Reference(name):
            return derive(rules, rules[name], length)
        case Choice(items):
            return set().union(*(derive(rules, item, length) for item in items))
        case Sequence(items):
            texts = {""}
            for item in items:
                texts = {
                    text + more
                    for text in texts
                    for more in derive(rules, item, length - len(text))
                }
            return texts
        case Repeat(item, suffix):
            least, most = times_of(suffix)
            return set().union(
                *(
                    derive(rules, Sequence([item] * count), length)
                    for count in range(least, most + 1)
                )
            )


GRAMMARS = [
    'root ::= "a" | "ab" | [bc]',
    'root ::= [ab]+ "b"',
    'root ::= x y? | "c"\nx ::= "a"* \ny ::= "b" "c"',
    'root ::= [^a] (. "a"){0,1}',
    'root ::= "a" root "b" | "c"',
    'root ::= "a"\n   | "b" # a comment\n   | ("c"\n "a")\n',
    "root ::= [a-b]{2} [c]{1,}",
    'root ::= ("" | "a") "b" | ',
    'root ::= "\\x61" [\\u0062-\\U00000063]',
    'Root ::= "b"\nroot ::= Root other-rule\nother-rule ::= "a"?',
]


@pytest.mark.parametrize("source", GRAMMARS)
def test_what_is_derived_and_nothing_else(compiled, vocabulary, source):
    rules = parse_gbnf(source)
    expected = derive(rules, rules["root"], 4)
    grammar = compiled("grammar", source)
    for length in range(5):
        for letters in itertools.product("abc", repeat=length):
            text = "".join(letters)
            assert matches(grammar, vocabulary, text) == (text in expected), text


OBJECTS = """
root ::= obj
obj ::= "{" ws (pair ("," ws pair)*)? "}" ws
pair ::= str ":" ws val
val ::= obj | str | "true"
str ::= "\\"" [a-z]{0,5} "\\"" ws
ws ::= | " "
"""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('root ::= kana+ "。"\nkana ::= [ぁ-ゟ] | [ァ-ヿ]\n', "ぁん。"),
        ('root ::= "1. " mv " " mv "\\n"\nmv ::= [a-h] [1-8] | "O-O" "-O"?\n', "1. e4 O-O-O\n"),
        (OBJECTS, '{"a": true,"b":{}, "": "x"} '),
        ("root ::= [\\]\\[\\\\^-] [-a]+ [^\\n]", "]--a/"),
    ],
)
def test_usual_grammars(compiled, vocabulary, source, text):
    assert matches(compiled("grammar", source), vocabulary, text)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('root ::= "a" \\"b\\" ::=', "line 1, column 14: unexpected '\\\\'"),
        ('root ::= "a"\nb ::= c', "line 2, column 7: there is no rule `c`"),
        ('a ::= "a"', "there is no rule `root`"),
        ('root ::= "a"\nroot ::= "b"', "line 2, column 1: the rule `root` is defined twice"),
        ('root ::= "a"**', "line 1, column 14: multiple repeat"),
        ('root ::= ("a"', "expected ), found the end"),
        ('root ::= "a" )', "expected name, found ')'"),
        ("root ::= [z-a]", "the range z-a is in reverse order"),
        ('root ::= "\\q"', "bad escape"),
        ('root ::= "\\ud800"', "bad escape"),
        ('root ::= "a" root', "only an endless text could satisfy the rule `root`"),
        ("root ::= " + "(" * 5000, "nested too deeply"),
    ],
)
def test_a_bad_grammar_is_refused_with_its_place(source, reason):
    with pytest.raises(ConstraintError, match=re.escape(reason)):
        gbnf_to_lark(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('root ::= "a"', True),
        ('# words\n  root   ::= "a"', True),
        ('start: "a"\n', False),
        ('start: "a ::= b"\n', False),
    ],
)
def test_the_dialects_are_told_apart(source, expected):
    assert is_gbnf(source) == expected


def test_a_long_chain_of_rules_is_translated_in_time_linear_in_it():
    chain = "".join(f'r{i} ::= "a" r{i + 1}\n' for i in range(20_000))
    lark = gbnf_to_lark(f'root ::= r0\n{chain}r20000 ::= "b"\n')
    assert lark.count("\n") == 20_003
