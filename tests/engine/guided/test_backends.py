"""What holds for every backend."""

import json
import subprocess
import sys

import pytest

from engine.errors import InvalidRequest
from engine.guided.backend import fill_bitmasks, new_bitmask
from engine.sampling_params import GuidedParams
from tests.engine.guided.follow import allowed, follow, matches

BACKENDS = ["llguidance", "outlines", "lm-format-enforcer"]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)

FLAG = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}


def test_a_schema_is_followed_to_its_end(compiled, vocabulary, backend):
    grammar = compiled("json", json.dumps(FLAG), backend=backend)
    assert matches(grammar, vocabulary, '{"a":true}')
    assert not matches(grammar, vocabulary, '{"a":1}')
    place = grammar.start()
    assert follow(place, vocabulary, '{"a":true}')
    assert place.is_finished
    assert allowed(place, vocabulary) == set(vocabulary.eos_token_ids)


def test_rollback_undoes_tokens_and_a_refused_token_changes_nothing(compiled, vocabulary, backend):
    grammar = compiled("regex", "(ab|abc){1,9}", backend=backend).start()
    assert follow(grammar, vocabulary, "ab")
    before = allowed(grammar, vocabulary)
    assert not grammar.accept(ord("x"))
    assert allowed(grammar, vocabulary) == before
    for token in "abc":
        assert grammar.accept(ord(token))
    assert grammar.can_end
    grammar.rollback(3)
    assert allowed(grammar, vocabulary) == before
    grammar.rollback(1)
    assert not grammar.can_end


def test_candidates_and_batches(compiled, vocabulary, backend):
    compiled_grammar = compiled("choice", '["yes", "no", "a"]', backend=backend)
    first, second = compiled_grammar.start(), compiled_grammar.start()
    assert first.accept(ord("y"))
    assert second.accept(ord("a"))
    bitmask = new_bitmask(3, vocabulary.vocab_size)
    other = compiled("regex", "[0-9]").start()
    fill_bitmasks([(first, 2), (other, 1), (second, 0)], bitmask)
    for grammar, row in ((first, 2), (other, 1), (second, 0)):
        alone = new_bitmask(1, vocabulary.vocab_size)
        grammar.fill_bitmask(alone, 0)
        assert (bitmask[row] == alone[0]).all()
    assert second.is_finished
    assert not first.can_end


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("regex", "foo**"),
        ("regex", "(abc"),
        ("regex", "a)(b"),
        ("regex", "(.*a.{12}){9}"),
        ("json", '{"type": "string", "contains": {}}'),
        ("json", "{not JSON"),
        ("json", '{"type": "no-such-type"}'),
        ("json", '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}'),
    ],
)
def test_a_bad_or_costly_constraint_is_refused(compiled, vocabulary, backend, kind, source):
    try:
        grammar = compiled(kind, source, backend=backend)
    except InvalidRequest as refusal:
        assert refusal.param == f"guided_{kind}"
    else:
        assert (backend, source) == ("llguidance", "(.*a.{12}){9}")
        assert follow(grammar.start(), vocabulary, "xxa" * 100)
    assert matches(compiled("choice", '["yes", "no"]', backend=backend), vocabulary, "yes")


def test_a_white_space_pattern_is_honoured_or_refused(compiled, vocabulary, backend):
    try:
        grammar = compiled("json", json.dumps(FLAG), whitespace_pattern="\n", backend=backend)
    except InvalidRequest as refusal:
        assert refusal.param == "guided_whitespace_pattern"
        assert backend == "lm-format-enforcer"
    else:
        assert matches(grammar, vocabulary, '{\n"a"\n:\ntrue\n}')
        assert not matches(grammar, vocabulary, '{"a":true}')


def test_grammars_are_the_default_backends_alone(compiler, backend):
    params = GuidedParams("grammar", 'root ::= "a"', backend=backend)
    if backend == "llguidance":
        assert compiler.compile(params).result(60)
        return
    with pytest.raises(InvalidRequest, match=f"{backend} can't do guided_grammar") as refusal:
        compiler.compile(params)
    assert refusal.value.param == "guided_decoding_backend"


def test_no_torch_is_imported(backend):
    module = {"outlines": "outlines", "llguidance": "llguidance"}.get(backend, "lmfe")
    code = f"import sys, engine.guided.{module}_backend; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
