from dataclasses import replace

import pytest

from completions.completion_request import read_request
from completions.exceptions import BadRequest
from engine.sampling_params import GuidedParams, SamplingParams

BASE = {"model": "fake", "prompt": "x"}


def read(**fields):
    return read_request({**BASE, **fields})


RULE_FAULTS = [
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [""]}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": ["a", ""]}, "prompt.1"),
    ({"prompt": [[1], []]}, "prompt.1"),
    ({"echo": True, "stream": True}, "echo"),
    ({"n": 2, "best_of": 1}, "best_of"),
    ({"best_of": 2, "stream": True}, "best_of"),
    ({"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
    ({"min_tokens": 17}, "min_tokens"),
    ({"min_tokens": -1}, "min_tokens"),
    ({"min_p": -0.1}, "min_p"),
    ({"min_p": 1.1}, "min_p"),
    ({"nvext": {"min_p": 1.1}}, "nvext.min_p"),
    ({"nvext": {"min_p": 1.1}, "min_p": 0.5}, "nvext.min_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"repetition_penalty": 2.1}, "repetition_penalty"),
    ({"prompt_logprobs": -1}, "prompt_logprobs"),
    ({"prompt_logprobs": 21}, "prompt_logprobs"),
    ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ({"stream_options": {}}, "stream_options"),
    ({"stream_options": {"include_usage": None}, "stream": False}, "stream_options"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a", ""]}, "stop"),
    ({"suffix": "!", "prompt": [11, 12]}, "suffix"),
    ({"suffix": "!", "prompt": [[11, 12]]}, "suffix"),
    ({"prompt": ["x"] * 9, "n": 128}, "prompt"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
        "response_format.json_schema.schema",
    ),
    ({"guided_choice": []}, "guided_choice"),
    ({"guided_whitespace_pattern": " ?"}, "guided_whitespace_pattern"),
    ({"guided_json": {}, "guided_regex": "a"}, "guided_json"),
    ({"guided_json": {}, "nvext": {"guided_regex": "a"}}, "guided_json"),
    (
        {"guided_choice": ["a"], "response_format": {"type": "json_object"}},
        "guided_choice",
    ),
]


@pytest.mark.parametrize(("fields", "param"), RULE_FAULTS)
def test_rule_fault(fields, param):
    with pytest.raises(BadRequest) as caught:
        read(**fields)
    assert caught.value.param == param
    assert caught.value.message.startswith(param)


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2, "best_of": 2, "stream": True},
        {"min_tokens": 16},
        {"min_p": 1},
        {"repetition_penalty": 2},
        {"prompt_logprobs": 20},
        {"stream": True, "stream_options": {}},
        {"stream_options": None},
        {"stop": []},
        {"suffix": "", "prompt": [1]},
        {"prompt": ["x"] * 8, "n": 128},
        {"response_format": {"type": "text"}},
    ],
)
def test_borders_are_accepted(fields):
    read(**fields)


def test_nothing_set_gives_the_engines_defaults():
    request = read()
    assert request.params == SamplingParams()
    assert request.prompts == ["x"]
    assert request.changed == {}
    assert not request.stream
    assert request.add_special_tokens


def test_null_is_absent():
    fields = dict.fromkeys(["temperature", "n", "logit_bias", "stop", "nvext", "logprobs", "seed"])
    assert read(**fields) == read()


def test_zeros_are_kept():
    params = read(temperature=0, logprobs=0, seed=0).params
    assert (params.temperature, params.logprobs, params.seed) == (0.0, 0, 0)


def test_all_sampling_fields_arrive():
    fields = {
        "n": 2,
        "best_of": 3,
        "max_tokens": 9,
        "min_tokens": 1,
        "temperature": 0.5,
        "top_p": 0.6,
        "top_k": 7,
        "min_p": 0.1,
        "frequency_penalty": -1,
        "presence_penalty": 1,
        "repetition_penalty": 1.5,
        "seed": -5,
        "include_stop_str_in_output": True,
        "ignore_eos": True,
        "logprobs": 2,
        "prompt_logprobs": 4,
    }
    lists = {"stop": "a", "stop_token_ids": [1, 2], "logit_bias": {"5": 1}}
    params = read(**fields, **lists).params
    expected = SamplingParams(**fields, stop=("a",), stop_token_ids=(1, 2), logit_bias={5: 1.0})
    assert params == expected
    assert isinstance(params.frequency_penalty, float)


def test_top_k_fits_a_machine_word():
    assert read(top_k=10**30).params.top_k == 2**31 - 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"logprobs": 3}, None),
        ({"echo": True}, None),
        ({"echo": True, "logprobs": 0}, 0),
        ({"echo": True, "logprobs": 3, "prompt_logprobs": 1}, 3),
        ({"echo": True, "logprobs": 1, "prompt_logprobs": 3}, 3),
        ({"prompt_logprobs": 0, "stream": True}, None),
    ],
)
def test_prompt_logprobs_that_the_engine_is_asked_for(fields, expected):
    assert read(**fields).params.prompt_logprobs == expected


def test_nvext_fills_what_the_top_level_leaves_open():
    nvext = {"top_k": 5, "min_p": 0.5, "ignore_eos": True, "repetition_penalty": 1.5}
    params = read(nvext=nvext, top_k=7, min_p=None).params
    assert (params.top_k, params.min_p, params.ignore_eos) == (7, 0.5, True)
    assert params.repetition_penalty == 1.5


@pytest.mark.parametrize(("greedy", "temperature"), [(True, 0.0), (False, 0.7), (None, 0.7)])
def test_greed_sampling(greedy, temperature):
    request = read(nvext={"greed_sampling": greedy}, temperature=0.7)
    assert request.params.temperature == temperature


def test_changed_are_the_parameters_that_differ_from_their_defaults():
    request = read(user="me", temperature=1, max_tokens=16, n=2, stop=["a"], echo=None)
    assert request.changed == {"n": 2, "stop": ["a"]}


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [("a", ["a"]), (["a", "b"], ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2]], [[1], [2]])],
)
def test_four_forms_of_a_prompt(prompt, prompts):
    request = read(prompt=prompt)
    assert (request.prompt, request.prompts) == (prompt, prompts)


SCHEMA = {"type": "integer"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"guided_json": SCHEMA}, GuidedParams("json", '{"type": "integer"}')),
        ({"guided_json": '{"type":"integer"}'}, GuidedParams("json", '{"type":"integer"}')),
        ({"guided_regex": "a"}, GuidedParams("regex", "a")),
        ({"guided_choice": ["a", "b"]}, GuidedParams("choice", '["a", "b"]')),
        ({"guided_grammar": "start: "}, GuidedParams("grammar", "start: ")),
        ({"nvext": {"guided_regex": "a"}}, GuidedParams("regex", "a")),
        ({"guided_regex": "a", "nvext": {"guided_regex": "b"}}, GuidedParams("regex", "a")),
        (
            {"guided_regex": "a", "nvext": {"guided_decoding_backend": "mine"}},
            GuidedParams("regex", "a", backend="mine"),
        ),
        (
            {"guided_json": {}, "guided_whitespace_pattern": ""},
            GuidedParams("json", "{}", whitespace_pattern=""),
        ),
        ({"response_format": {"type": "text"}}, None),
        (
            {"response_format": {"type": "json_object"}},
            GuidedParams("json", '{"type": "object"}', field="response_format"),
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
            GuidedParams("json", '{"type": "integer"}', field="response_format"),
        ),
        ({}, None),
    ],
)
def test_constraints(fields, expected):
    guided = read(**fields).params.guided
    assert guided == (expected and replace(expected, field=expected.param))
