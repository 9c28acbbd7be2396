"""Whatever the default model generates for a schema and ends by itself follows that schema.

A few of the schemas in the ordinary run; all of them with `pytest -m slow tests/real_model`.
"""

import asyncio
import json

import jsonschema
import pytest

from completions import acomplete, astream
from tests.real_model.schemas import SCHEMAS

N = 4
AT_ONCE = 6


async def complete(**fields):
    answer = await acomplete(**fields)
    return {
        choice["index"]: (choice["text"], choice["finish_reason"]) for choice in answer["choices"]
    }


async def stream(**fields):
    texts, reasons = dict.fromkeys(range(N), ""), {}
    async for chunk in astream(**fields):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
            if choice["finish_reason"]:
                reasons[choice["index"]] = choice["finish_reason"]
    return {index: (texts[index], reasons[index]) for index in range(N)}


async def generate_all(schemas):
    """Each schema's choices, once streamed and once not, from one seed, many at a time."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def both(seed, prompt, schema):
        fields = {"prompt": prompt, "guided_json": schema, "seed": seed, "n": N, "max_tokens": 160}
        async with turn:
            return await asyncio.gather(complete(**fields), stream(**fields))

    return await asyncio.gather(*(both(seed, *each) for seed, each in enumerate(schemas)))


def fault(text, schema):
    """What is wrong with a finished text, if anything is."""
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    try:
        jsonschema.Draft202012Validator(schema, format_checker=checker).validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "schemas", [SCHEMAS[3::14], pytest.param(SCHEMAS, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_finished_texts_follow_their_schema(schemas):
    answers = asyncio.run(generate_all(schemas))
    finished = 0
    for (_, schema), (whole, streamed) in zip(schemas, answers, strict=True):
        assert whole == streamed, schema
        for text, reason in whole.values():
            finished += reason == "stop"
            assert reason == "length" or fault(text, schema) is None, (schema, text)
    assert finished > 0.8 * N * len(schemas)
