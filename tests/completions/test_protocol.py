import json

import pytest

from completions.completion_request import read_request
from completions.protocol import MIN_LOGPROB, Protocol, event
from engine.outputs import (
    Alternative,
    CandidateOutput,
    PromptOutput,
    RequestOutput,
    Timings,
    TokenLogprob,
)

INF = float("-inf")


def protocol(prompt_tokens=(3,), **fields):
    request = read_request({"model": "m", "prompt": ["x"] * len(prompt_tokens), **fields})
    return Protocol("cmpl-1", 1700000000, request, list(prompt_tokens))


def output(*candidates, prompts=None):
    result = RequestOutput("cmpl-1", prompts=prompts or [PromptOutput(0, 3, 2)])
    for candidate in candidates:
        result.add(candidate)
    result.timings = Timings(0, 0, 0)
    return result


def ended(text, index=0, *, prompt=0, score=0.0, tokens=2, logprobs=()):
    return CandidateOutput(prompt, index, text, tokens, list(logprobs), score, "length", None)


def position(token_id, token, logprob, offset=0, top=(), rank=None):
    return TokenLogprob(
        token_id, token, logprob, offset, tuple(Alternative(*each) for each in top), rank
    )


def chunks(events):
    lines = [line for line in events.decode().split("\n\n") if line]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_completion_object():
    completion = protocol().completion(output(ended("hi")), [])
    assert completion == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1700000000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "text": "hi",
                "logprobs": None,
                "finish_reason": "length",
                "stop_reason": None,
                "prompt_logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }


def test_index_is_prompt_times_n_plus_choice():
    prompts = [PromptOutput(1, 4), PromptOutput(0, 3)]
    late = [ended(f"{p}{i}", i, prompt=p) for p, i in ((1, 1), (0, 1), (1, 0), (0, 0))]
    completion = protocol((3, 4), n=2).completion(output(*late, prompts=prompts), [])
    shown = [(choice["index"], choice["text"]) for choice in completion["choices"]]
    assert shown == [(0, "00"), (1, "01"), (2, "10"), (3, "11")]
    assert completion["usage"]["prompt_tokens"] == 7


def test_best_candidates_come_first_and_ties_keep_their_order():
    scores = [-3.0, -1.0, -2.0, -1.0]
    candidates = [ended(str(i), i, score=score, tokens=i + 1) for i, score in enumerate(scores)]
    completion = protocol(n=3, best_of=4).completion(output(*candidates), [])
    assert [choice["text"] for choice in completion["choices"]] == ["1", "3", "2"]
    assert [choice["index"] for choice in completion["choices"]] == [0, 1, 2]
    assert completion["usage"]["completion_tokens"] == 2 + 4 + 3


def test_ranking_is_within_each_prompt():
    prompts = [PromptOutput(0, 3), PromptOutput(1, 3)]
    candidates = [
        ended(f"{p}{i}", i, prompt=p, score=score)
        for p, i, score in ((0, 0, -9.0), (0, 1, -8.0), (1, 0, -1.0), (1, 1, -2.0))
    ]
    completion = protocol((3, 3), best_of=2).completion(output(*candidates, prompts=prompts), [])
    assert [choice["text"] for choice in completion["choices"]] == ["01", "10"]


LOGPROBS = [
    position(7, " was", -2.2, 0, [(8, " is", -0.1), (9, " has", -1.0), (7, " was", -2.2)]),
    position(5, "!", -0.5, 4, [(5, "!", -0.5), (6, "?", INF)]),
]


def test_logprobs_are_four_parallel_lists():
    completion = protocol(logprobs=2).completion(output(ended(" was!", logprobs=LOGPROBS)), [])
    assert completion["choices"][0]["logprobs"] == {
        "tokens": [" was", "!"],
        "token_logprobs": [-2.2, -0.5],
        "top_logprobs": [
            {" was": -2.2, " is": -0.1, " has": -1.0},
            {"!": -0.5, "?": MIN_LOGPROB},
        ],
        "text_offset": [0, 4],
    }


def test_logprobs_of_zero_alternatives_show_the_token_itself():
    completion = protocol(logprobs=0).completion(output(ended(" was!", logprobs=LOGPROBS)), [])
    logprobs = completion["choices"][0]["logprobs"]
    assert logprobs["top_logprobs"] == [{" was": -2.2}, {"!": -0.5}]


def test_two_ids_with_one_text_keep_the_chosen_value():
    same = position(1, "a", -3.0, 0, [(2, "a", -0.1), (3, "b", -1.0)])
    completion = protocol(logprobs=2).completion(output(ended("a", logprobs=[same])), [])
    assert completion["choices"][0]["logprobs"]["top_logprobs"] == [{"a": -3.0, "b": -1.0}]


def test_tokens_by_id():
    fields = {"logprobs": 1, "return_tokens_as_token_ids": True}
    completion = protocol(**fields).completion(output(ended(" was!", logprobs=LOGPROBS)), [])
    logprobs = completion["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["token_id:7", "token_id:5"]
    assert logprobs["top_logprobs"][0] == {"token_id:7": -2.2, "token_id:8": -0.1}


PROMPT = PromptOutput(
    0,
    3,
    0,
    [
        position(1, "On", None, 0),
        position(2, "ce", -4.0, 2, [(3, "ly", -1.0), (4, "to", -1.0), (5, "a", -2.0)], 9),
        position(3, "!", INF, 4, [(6, "?", -0.5)], 50),
    ],
)


def test_echo_puts_the_prompt_before_text_and_logprobs():
    result = output(ended(" was!", logprobs=LOGPROBS), prompts=[PROMPT])
    completion = protocol(logprobs=1, echo=True).completion(result, ["Once!"])
    choice = completion["choices"][0]
    assert choice["text"] == "Once! was!"
    assert choice["logprobs"] == {
        "tokens": ["On", "ce", "!", " was", "!"],
        "token_logprobs": [None, -4.0, MIN_LOGPROB, -2.2, -0.5],
        "top_logprobs": [
            None,
            {"ce": -4.0, "ly": -1.0},
            {"!": MIN_LOGPROB, "?": -0.5},
            {" was": -2.2, " is": -0.1},
            {"!": -0.5},
        ],
        "text_offset": [0, 2, 4, 5, 9],
    }
    assert choice["prompt_logprobs"] is None


def test_echo_without_logprobs():
    completion = protocol(echo=True, n=2).completion(
        output(ended("a", 0), ended("b", 1)), ["Once "]
    )
    assert [choice["text"] for choice in completion["choices"]] == ["Once a", "Once b"]


def test_prompt_logprobs_have_the_actual_token_first_then_the_likeliest():
    result = output(ended("a", 0), ended("b", 1), prompts=[PROMPT])
    completion = protocol(prompt_logprobs=3, n=2).completion(result, [])
    first, second = (choice["prompt_logprobs"] for choice in completion["choices"])
    assert first == second
    assert first[0] is None
    assert list(first[1].items()) == [
        ("2", {"logprob": -4.0, "rank": 9, "decoded_token": "ce"}),
        ("3", {"logprob": -1.0, "rank": 1, "decoded_token": "ly"}),
        ("4", {"logprob": -1.0, "rank": 1, "decoded_token": "to"}),
        ("5", {"logprob": -2.0, "rank": 3, "decoded_token": "a"}),
    ]
    assert first[2]["3"]["logprob"] == MIN_LOGPROB


def test_prompt_logprobs_are_cut_to_what_was_asked_for():
    result = output(ended("a"), prompts=[PROMPT])
    completion = protocol(prompt_logprobs=1, echo=True, logprobs=3).completion(result, [""])
    choice = completion["choices"][0]
    assert list(choice["prompt_logprobs"][1]) == ["2", "3"]
    assert list(choice["logprobs"]["top_logprobs"][1]) == ["ce", "ly", "to", "a"]


def test_one_choice_per_chunk():
    step = output(ended("b", 1), ended("a", 0))
    found = chunks(protocol(n=2, stream=True).events(step))
    assert [(chunk["choices"][0]["index"], chunk["choices"][0]["text"]) for chunk in found] == [
        (1, "b"),
        (0, "a"),
    ]
    assert all(chunk["usage"] is None and len(chunk["choices"]) == 1 for chunk in found)
    assert set(found[0]["choices"][0]) == {
        "index",
        "text",
        "logprobs",
        "finish_reason",
        "stop_reason",
    }


def test_no_chunk_for_what_is_held_back():
    held = CandidateOutput(0, 0, "", num_tokens=1)
    assert protocol(stream=True).events(output(held)) == b""


def test_running_usage():
    options = {"include_usage": True, "continuous_usage_stats": True}
    writer = protocol((3, 5), stream=True, stream_options=options)
    prompts = [PromptOutput(0, 3, 2), PromptOutput(1, 5, 4)]
    (chunk,) = chunks(writer.events(output(ended("a", prompt=1, tokens=7), prompts=prompts)))
    assert chunk["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 4},
    }


def test_running_usage_needs_include_usage():
    options = {"continuous_usage_stats": True}
    (chunk,) = chunks(protocol(stream=True, stream_options=options).events(output(ended("a"))))
    assert chunk["usage"] is None


def test_end_of_a_stream():
    total = output(ended("a", 0, tokens=4), ended("b", 1, tokens=5))
    assert protocol(n=2, stream=True).end(total) == b"data: [DONE]\n\n"
    writer = protocol(n=2, stream=True, stream_options={"include_usage": True})
    usage, done = writer.end(total).decode().split("\n\n", 1)
    last = json.loads(usage.removeprefix("data: "))
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 9)
    assert done == "data: [DONE]\n\n"


@pytest.mark.parametrize("text", ["\u2028\u2029\u0085", "é🐢", "\ud83d", 'a"\\\n', "\0"])
def test_event_is_one_line_of_ascii(text):
    data = event({"text": text})
    assert data.startswith(b"data: {")
    assert data.endswith(b"}\n\n")
    assert len(data[:-2].decode("ascii").splitlines()) == 1
    assert json.loads(data[6:]) == {"text": text}


def test_numbers_that_are_not_json_are_never_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        event({"logprob": float("nan")})
