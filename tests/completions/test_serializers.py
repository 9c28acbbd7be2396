"""The schema against an independent model of spec section 2: a predicate per field."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.completion_request import _defaults
from completions.exceptions import BadRequest, Unprocessable
from completions.serializers import CompletionSerializer, TokenizeSerializer, schema_of, validate
from engine.sampling_params import SamplingParams

BASE = {"model": "fake", "prompt": "x"}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_int(value):
    return is_number(value) and value == math.floor(value)


def is_plain_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_text(value):
    return isinstance(value, str)


def is_bool(value):
    return value is True or value is False


def between(low, high, check=is_number):
    return lambda value: check(value) and low <= value <= high


def at_least(low, check=is_int):
    return lambda value: check(value) and value >= low


def list_of(check):
    return lambda value: isinstance(value, list) and all(map(check, value))


def is_stop(value):
    stops = [value] if is_text(value) else value
    return list_of(is_text)(stops) and len(stops) <= 64 and all(len(s) <= 1000 for s in stops)


def is_logit_bias(value):
    return isinstance(value, dict) and all(
        key != "" and set(key) <= set("0123456789") and is_number(bias) and -100 <= bias <= 100
        for key, bias in value.items()
    )


def is_prompt(value):
    return (
        is_text(value)
        or list_of(is_text)(value)
        or list_of(is_plain_int)(value)
        or list_of(list_of(is_plain_int))(value)
    )


def is_object_of(**checks):
    return lambda value: (
        isinstance(value, dict)
        and all(
            name in checks and (inner is None or checks[name](inner))
            for name, inner in value.items()
        )
    )


MAX_SEED = 9223372036854776000
GUIDED = {
    "guided_json": lambda value: isinstance(value, (str, dict)),
    "guided_regex": is_text,
    "guided_choice": list_of(is_text),
    "guided_grammar": is_text,
    "guided_decoding_backend": is_text,
    "guided_whitespace_pattern": is_text,
}
TOP_K = {"top_k": lambda value: is_int(value) and (value == -1 or value >= 1)}
RULE_RANGES = {"min_p": is_number, "repetition_penalty": is_number}
SHARED = {**GUIDED, **TOP_K, **RULE_RANGES, "ignore_eos": is_bool}

# What each nullable field takes under the schema alone; ranges that are rules aren't in it.
NULLABLE = {
    **SHARED,
    "best_of": between(1, 128, is_int),
    "echo": is_bool,
    "frequency_penalty": between(-2, 2),
    "presence_penalty": between(-2, 2),
    "logit_bias": is_logit_bias,
    "logprobs": between(0, 5, is_int),
    "max_tokens": at_least(1),
    "min_tokens": is_int,
    "n": between(1, 128, is_int),
    "seed": between(-MAX_SEED, MAX_SEED, is_int),
    "stop": is_stop,
    "stop_token_ids": list_of(is_int),
    "include_stop_str_in_output": is_bool,
    "stream": is_bool,
    "stream_options": is_object_of(
        include_usage=is_bool, continuous_usage_stats=is_bool, include_obfuscation=is_bool
    ),
    "suffix": is_text,
    "temperature": between(0, 2),
    "top_p": lambda value: is_number(value) and 0 < value <= 1,
    "user": lambda value: is_text(value) and 1 <= len(value) <= 1000,
    "prompt_logprobs": is_int,
    "response_format": lambda value: (
        is_object_of(
            type=lambda kind: kind in ("text", "json_object", "json_schema"),
            json_schema=is_object_of(
                name=is_text,
                description=is_text,
                strict=is_bool,
                schema=lambda schema: isinstance(schema, dict),
            ),
        )(value)
        and value.get("type") is not None
    ),
    "return_tokens_as_token_ids": is_bool,
    "nvext": is_object_of(
        **SHARED, greed_sampling=is_bool, use_raw_prompt=is_bool, annotations=list_of(is_text)
    ),
}
REQUIRED = {"model": is_text, "prompt": is_prompt}
NEVER_NULL = {**REQUIRED, "add_special_tokens": is_bool}
FIELDS = {**NULLABLE, **NEVER_NULL}


def faulty_fields(body):
    """The names that the schema must complain about."""
    faults = {name for name in REQUIRED if name not in body}
    for name, value in body.items():
        if name not in FIELDS:
            faults.add(name)
        elif value is None:
            faults |= {name} & NEVER_NULL.keys()
        elif not FIELDS[name](value):
            faults.add(name)
    return faults


numbers = st.one_of(
    st.integers(-3, 130),
    st.sampled_from([MAX_SEED, MAX_SEED + 1, -MAX_SEED - 1, 10**30, 16.0, 16.5, 0.0, -0.0, 2.0]),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=5), st.sampled_from(["7"]))
lists = st.lists(st.one_of(scalars, st.lists(scalars, max_size=3)), max_size=4)
token_lists = st.lists(st.integers(-1, 9), max_size=4)
keys = st.one_of(
    st.sampled_from(["5", "05", "a", "", "1.5", "٣", "type", "schema", "json_schema", "top_k"]),
    st.sampled_from(["include_usage", "min_p", "greed_sampling", "annotations", "ignore_eos"]),
)
kinds = st.sampled_from(["text", "json_object", "json_schema", "xml"])
objects = st.dictionaries(keys, st.one_of(scalars, lists, kinds), max_size=3)
formats = st.fixed_dictionaries(
    {"type": kinds}, optional={"json_schema": st.dictionaries(keys, objects, max_size=2)}
)
values = st.one_of(scalars, lists, token_lists, st.lists(token_lists), objects, formats)
names = st.one_of(st.sampled_from(sorted(FIELDS)), st.sampled_from(["max_completion_tokens", ""]))


@given(st.dictionaries(names, values, max_size=8), st.booleans())
def test_schema_finds_exactly_the_faulty_fields(fields, complete):
    body = BASE | fields if complete else fields
    expected = faulty_fields(body)
    try:
        validate(CompletionSerializer, body)
        found = set()
    except Unprocessable as error:
        found = {problem["loc"][1] for problem in error.detail}
        assert error.param.split(".")[0] in found
    assert found == expected, json.dumps(body)


def test_model_of_the_rules_knows_every_field():
    assert FIELDS.keys() == set(schema_of(CompletionSerializer).fields)


def problems(serializer=CompletionSerializer, **fields):
    with pytest.raises(Unprocessable) as caught:
        validate(serializer, {**BASE, **fields})
    return {tuple(problem["loc"]): problem for problem in caught.value.detail}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("max_completion_tokens", "max_tokens"),
        ("temprature", "temperature"),
        ("guided_regexp", "guided_regex"),
    ],
)
def test_unknown_field_names_its_neighbour(name, near):
    (problem,) = problems(**{name: 1}).values()
    assert problem["msg"] == f"unknown field. Did you mean {near}?"
    assert problem["type"] == "unknown_field"


def test_places_inside_a_field_are_named():
    found = problems(
        logit_bias={"5": 1, "x": 1, "6": 101},
        stop=["a", 1],
        stream_options={"usage": True},
        nvext={"top_k": 0},
        prompt=[[1], [2.0]],
    )
    assert found.keys() == {
        ("body", "logit_bias", "x"),
        ("body", "logit_bias", "6"),
        ("body", "stop", 1),
        ("body", "stream_options", "usage"),
        ("body", "nvext", "top_k"),
        ("body", "prompt", 1),
    }
    assert found["body", "logit_bias", "6"]["input"] == 101
    assert found["body", "prompt", 1]["input"] == [2.0]


def test_huge_input_is_not_echoed():
    (problem,) = problems(stop="s" * 1001).values()
    assert problem["input"] is None


def test_whole_floats_become_integers():
    fields = validate(CompletionSerializer, {**BASE, "n": 2.0, "top_k": -1.0, "seed": 7.0})
    assert [(name, type(fields[name])) for name in ("n", "top_k", "seed")] == [
        ("n", int),
        ("top_k", int),
        ("seed", int),
    ]


def test_seeds_are_exact():
    for seed in (2**63 - 1, 2**63, -(2**63), MAX_SEED, -MAX_SEED, 2**53 + 1):
        assert validate(CompletionSerializer, {**BASE, "seed": seed})["seed"] == seed


@pytest.mark.parametrize("text", ["", " ", "\n", " a ", "\0", "\u2028"])
def test_text_is_not_touched(text):
    assert validate(CompletionSerializer, {**BASE, "prompt": text})["prompt"] == [text]


def test_unknown_fields_can_be_ignored(settings, caplog):
    settings.COMPLETIONS = {"UNKNOWN_FIELDS": "ignore"}
    fields = validate(CompletionSerializer, {**BASE, "frobnicate": 1, "n": 2})
    assert fields == {"model": "fake", "prompt": ["x"], "n": 2}
    assert "frobnicate" in caplog.text


def test_validation_status(settings):
    settings.COMPLETIONS = {"VALIDATION_STATUS": 400}
    with pytest.raises(BadRequest) as caught:
        validate(CompletionSerializer, {**BASE, "n": 0})
    assert caught.value.body["param"] == "n"
    assert "detail" not in caught.value.body


def test_other_serializers_are_closed_too():
    assert problems(TokenizeSerializer, no_such_field=1).keys() == {("body", "no_such_field")}


def test_defaults_are_those_of_the_engine():
    """The serializer declares what a client gets; other callers of the engine get the same."""
    engine = {field.name: field for field in dataclasses.fields(SamplingParams)}
    for name, default in _defaults().items():
        if name in engine:
            field = engine[name]
            made = field.default_factory is not dataclasses.MISSING
            assert default == (field.default_factory() if made else field.default), name
