import itertools
import json
import random
import re

import pytest

from engine.errors import InvalidRequest
from engine.guided.backend import fill_bitmasks, new_bitmask
from tests.engine.guided.follow import allowed, follow, matches


@pytest.mark.parametrize(
    "pattern",
    ["(ab|b)*a", "^a{1,2}b?$", "a|ab|abc", "[^a]c*", "(a|b|c){3}", "", "^^a$$", "a*(b|c$)"],
)
def test_a_regex_matches_the_whole_text(compiled, vocabulary, pattern):
    grammar = compiled("regex", pattern)
    for length in range(5):
        for letters in itertools.product("abc", repeat=length):
            text = "".join(letters)
            expected = re.fullmatch(pattern, text) is not None
            assert matches(grammar, vocabulary, text) == expected, text


@pytest.mark.parametrize("pattern", ["ww我😁", r"\$\^", "😁+", "a/b", "\n"])
def test_a_regex_of_any_characters(compiled, vocabulary, pattern):
    text = re.sub(r"\\(.)|\+", r"\1", pattern)
    assert matches(compiled("regex", pattern), vocabulary, text)


def test_half_a_character_is_allowed_where_the_character_is(compiled, vocabulary):
    half = vocabulary.token_bytes.index("😁".encode()[:2])
    grammar = compiled("regex", "[😁é]").start()
    assert half in allowed(grammar, vocabulary)
    assert grammar.accept(half)
    assert allowed(grammar, vocabulary) == {"😁".encode()[2]}


@pytest.mark.parametrize(
    "items",
    [
        ["yes", "no"],
        ["a", "ab", "abc"],
        ["only this"],
        ["a+b", "(x)", "[1]", "c.d", "\\d"],
        ["  yes ", "\tno\n"],
        ["", "\u0000", "\u2028", '"', "/"],
        ["ключ", "😁😁", "é"],
    ],
)
def test_a_choice_is_one_item_literally(compiled, vocabulary, items):
    grammar = compiled("choice", json.dumps(items))
    data = [item.encode() for item in items]
    waiting = [b""]
    while waiting:
        prefix = waiting.pop()
        state = grammar.start()
        assert all(state.accept(byte) for byte in prefix)
        expected = {
            token
            for token, text in enumerate(vocabulary.token_bytes)
            if text and any(item.startswith(prefix + text) for item in data)
        }
        goes_on = bool(expected)
        if prefix in data:
            expected |= set(vocabulary.eos_token_ids)
        # Where bytes are forced, only the tokenizer's own way to split them is allowed.
        assert set() < allowed(state, vocabulary) <= expected
        assert state.can_end == (prefix in data)
        assert state.is_finished == (state.can_end and not goes_on and prefix != b"")
        waiting += [prefix + bytes([token]) for token in expected if token < 256]
    assert all(matches(grammar, vocabulary, item) for item in items)


def test_a_forced_text_has_one_way_to_be_split(compiled, vocabulary):
    grammar = compiled("regex", "(true|false) abc").start()
    assert follow(grammar, vocabulary, "true")
    for token in vocabulary.encode(" abc"):
        assert allowed(grammar, vocabulary) == {token}
        assert grammar.accept(token)
    assert grammar.is_finished


def test_rollback_undoes_tokens_and_a_refused_token_changes_nothing(compiled, vocabulary):
    grammar = compiled("json", '{"type": "array", "items": {"type": "boolean"}}').start()
    assert follow(grammar, vocabulary, "[true")
    before = allowed(grammar, vocabulary)
    assert not grammar.accept(ord("x"))
    assert allowed(grammar, vocabulary) == before
    assert follow(grammar, vocabulary, ",false]")
    assert grammar.is_finished
    grammar.rollback(len(vocabulary.encode(",false]")))
    assert not grammar.can_end
    assert allowed(grammar, vocabulary) == before


def test_candidates_do_not_share_their_place(compiled, vocabulary):
    grammar = compiled("choice", '["yes", "no"]')
    first, second = grammar.start(), grammar.start()
    assert follow(first, vocabulary, "ye")
    assert follow(second, vocabulary, "no")
    assert second.is_finished
    assert allowed(first, vocabulary) == {ord("s")}


def test_too_many_states_are_a_dead_end_until_it_is_compiled_again(compiled, vocabulary):
    pattern = "(.*a.{12}){9}.*"
    used, dice = compiled("regex", pattern), random.Random(0)
    while not used.is_used_up:
        grammar = used.start()
        for _ in range(200):
            if not allowed(grammar, vocabulary):
                break
            assert grammar.accept(ord(dice.choice("ab")))
    assert not grammar.can_end
    assert allowed(used.start(), vocabulary) == set()
    assert allowed(compiled("regex", pattern).start(), vocabulary)


def test_a_batch_is_filled_as_row_by_row(compiled, vocabulary):
    grammars = [compiled("regex", f"{word}[0-9]*").start() for word in ("true", "ab", "no")]
    bitmask = new_bitmask(5, vocabulary.vocab_size)
    fill_bitmasks(list(zip(grammars, (4, 0, 2), strict=True)), bitmask)
    for grammar, row in zip(grammars, (4, 0, 2), strict=True):
        alone = new_bitmask(1, vocabulary.vocab_size)
        grammar.fill_bitmask(alone, 0)
        assert (bitmask[row] == alone[0]).all()
    assert (bitmask[[1, 3]] == -1).all()


WITH_A_FLAG = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "text",
    ['{"a":true}', '{"a": false}', '{ "a" : true }', '{\n  "a": true\n}', '{\n\t"a":true}'],
)
def test_usual_white_space_between_json_tokens(compiled, vocabulary, text):
    assert matches(compiled("json", json.dumps(WITH_A_FLAG)), vocabulary, text)


@pytest.mark.parametrize("blanks", [" " * 2, "\n" * 2, "\n" + " " * 13, "\t"])
def test_white_space_is_bounded(compiled, vocabulary, blanks):
    assert not matches(
        compiled("json", json.dumps(WITH_A_FLAG)), vocabulary, f'{{{blanks}"a":true}}'
    )


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("[ ]{0,3}", '{   "a":true }', True),
        ("[ ]{0,3}", '{    "a":true}', False),
        ("", '{"a":true}', True),
        ("", '{"a": true}', False),
        ("\n", '{\n"a"\n:\ntrue\n}', True),
        ("\n", '{\n"a"\n:\ntrue}', False),
    ],
)
def test_a_white_space_pattern_is_honoured(compiled, vocabulary, pattern, text, expected):
    grammar = compiled("json", json.dumps(WITH_A_FLAG), whitespace_pattern=pattern)
    assert matches(grammar, vocabulary, text) == expected


@pytest.mark.parametrize("key", ["\\n", "\\u000a", "\\u000A"])
def test_a_name_has_one_spelling(compiled, vocabulary, key):
    grammar = compiled("json", '{"type": "object", "properties": {"\\n": {"type": "integer"}}}')
    assert not matches(grammar, vocabulary, f'{{"{key}":"x"}}')


@pytest.mark.parametrize(
    ("kind", "source", "reason"),
    [
        ("regex", "foo**", "multiple repeat '**' at character 3"),
        ("regex", "(abc", "unclosed group at character 0"),
        ("regex", "(?!x)y", "look-around"),
        ("regex", r"a\b", "WordUnicode"),
        ("grammar", "start: MISSING\n", "MISSING"),
        ("grammar", "start: /[abc/\n", "unclosed character class"),
        ("grammar", 'start: "d".."a"\n', "range"),
        ("grammar", "start: start\n", "no text"),
        ("grammar", 'start: "a" start\n', "Too many items"),
        ("grammar", 'root ::= "a" \\"b\\" ::=', "line 1, column 14: unexpected"),
        ("json", '{"type": "string", "minLength": 3, "maxLength": 2}', "minLength"),
        ("json", "false", "`false`"),
        ("json", '{"properties": {"a": {"pattern": "(b"}}}', "#/properties/a: unclosed group"),
        ("json", '{"const": "\\ud800"}', "hex escape"),
    ],
)
def test_a_bad_constraint_is_refused_with_its_reason(compiled, kind, source, reason):
    with pytest.raises(InvalidRequest, match=re.escape(reason)) as refusal:
        compiled(kind, source)
    assert refusal.value.param == f"guided_{kind}"
    assert refusal.value.message.startswith(f"guided_{kind}: ")
    assert "start: " not in refusal.value.message


@pytest.mark.parametrize("pattern", ["(a", "a**"])
def test_a_bad_white_space_pattern_names_its_field(compiled, pattern):
    with pytest.raises(InvalidRequest) as refusal:
        compiled("json", "{}", whitespace_pattern=pattern)
    assert refusal.value.param == "guided_whitespace_pattern"


@pytest.mark.parametrize(
    "source",
    [
        'start: "x"*\n',
        'start: "a".."c" | "x" "y"?\n',
        "%import common.INT\nstart: INT\n",
    ],
)
def test_lark(compiled, vocabulary, source):
    text = {"*": "xxx", "?": "xy", "T": "12"}[source[-2]]
    assert matches(compiled("grammar", source), vocabulary, text)
