"""Whatever is sampled under a constraint until it ends satisfies it, with every backend."""

import json
import random
import re

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.sampling_params import GuidedParams
from tests.engine.guided.follow import allowed

BACKENDS = ["llguidance", "outlines", "lm-format-enforcer"]


def sample(compiled_grammar, vocabulary, seed, *, budget=300):
    """A random text, or None if it didn't end within the budget of tokens."""
    choose = random.Random(seed)
    grammar = compiled_grammar.start()
    tokens = []
    for _ in range(budget):
        ids = allowed(grammar, vocabulary)
        assert ids, "there is no way to go on"
        assert grammar.can_end == bool(ids & set(vocabulary.eos_token_ids))
        if grammar.is_finished or (grammar.can_end and choose.random() < 0.3):
            return b"".join(tokens).decode()
        # Closing brackets and quotes are preferred, or most texts would never end.
        closing = [t for t in ids if vocabulary.token_bytes[t] in (b"]", b"}", b'"')]
        rest = sorted(ids - set(vocabulary.eos_token_ids))
        token = choose.choice(closing if closing and choose.random() < 0.3 else rest)
        tokens.append(vocabulary.token_bytes[token])
        assert grammar.accept(token)
    return None


NAMES = st.sampled_from(["a", "b", "ab", "é", "x y", "no"])
SCALARS = st.one_of(
    st.sampled_from(["integer", "number", "boolean", "null", "string"]).map(lambda t: {"type": t}),
    st.builds(lambda n: {"type": "string", "minLength": n}, st.integers(0, 4)),
    st.builds(lambda n: {"type": "string", "maxLength": n}, st.integers(0, 4)),
    st.builds(lambda n: {"type": "integer", "minimum": n, "maximum": n + 7}, st.integers(-9, 99)),
    st.lists(NAMES, min_size=1, max_size=3).map(lambda v: {"enum": v}),
    st.lists(NAMES, min_size=1, max_size=3).map(lambda v: {"enum": v, "type": "string"}),
    st.sampled_from([1, -2.5, True, None, "a", 'q"\n\\é', [1, "a"], {"a": 1}]).map(
        lambda v: {"const": v}
    ),
    st.sampled_from(["date", "date-time", "time", "uuid", "ipv4", "email"]).map(
        lambda f: {"type": "string", "format": f}
    ),
    st.sampled_from(["^[a-c]{2}$", "b+", ".", "^\\d*$"]).map(
        lambda p: {"type": "string", "pattern": p, "maxLength": 8}
    ),
)


def objects(children):
    def build(properties, required, additional):
        schema = {"type": "object", "properties": properties}
        schema["required"] = [name for name in properties if name in required]
        return schema | ({} if additional is None else {"additionalProperties": additional})

    return st.builds(
        build,
        st.dictionaries(NAMES, children, max_size=3),
        st.sets(NAMES) | st.just({"a", "b", "ab", "é", "x y", "no"}),
        st.none() | st.booleans(),
    )


def composites(children):
    return st.one_of(
        objects(children),
        st.builds(
            lambda items, least, more: {
                "type": "array",
                "items": items,
                "minItems": least,
                "maxItems": least + more,
            },
            children,
            st.integers(0, 2),
            st.integers(0, 2),
        ),
        st.lists(children, min_size=1, max_size=3).map(lambda options: {"anyOf": options}),
        st.lists(children, min_size=1, max_size=2).map(lambda options: {"oneOf": options}),
        st.lists(children, min_size=1, max_size=2).map(lambda options: {"allOf": options}),
        children.map(lambda child: {"$ref": "#/$defs/it", "$defs": {"it": child}}),
        children.map(lambda child: {"type": "object", "additionalProperties": child}),
    )


SCHEMAS = st.recursive(SCALARS, composites, max_leaves=5)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(schema=SCHEMAS, seed=st.integers(0, 2**32))
def test_sampled_json_follows_its_schema(compiler, vocabulary, backend, schema, seed):
    # A definition further down is not where the reference looks for it, so it is a dead one.
    params = GuidedParams("json", json.dumps(schema), backend=backend)
    try:
        grammar = compiler.compile(params).result(60)
    except InvalidRequest:
        return
    text = sample(grammar, vocabulary, seed)
    if text is not None:
        checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
        jsonschema.Draft202012Validator(schema, format_checker=checker).validate(json.loads(text))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "pattern",
    [
        "[a-z]{3}",
        "(yes|no)+",
        "a|ab|abc",
        r"\d{1,3}(\.\d+)?",
        "[^a-z\n]{2,4}",
        "ww我😁",
        "(a*b){2}",
    ],
)
def test_sampled_text_matches_its_regex(compiler, vocabulary, backend, pattern):
    grammar = compiler.compile(GuidedParams("regex", pattern, backend=backend)).result(60)
    for seed in range(20):
        text = sample(grammar, vocabulary, seed)
        assert text is None or re.fullmatch(pattern, text, re.DOTALL)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_item_of_a_choice_can_be_sampled(compiler, vocabulary, backend):
    items = {"a", "ab", "abc", "a+b", "(x)", "\\d", " yes ", "é"}
    params = GuidedParams("choice", json.dumps(sorted(items)), backend=backend)
    grammar = compiler.compile(params).result(60)
    assert {sample(grammar, vocabulary, seed) for seed in range(200)} == items
