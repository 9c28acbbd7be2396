"""What it takes to parse and to check a body.

python -m tests.benchmarks.validation
"""

import json
import os
import statistics
from typing import Any

import django

from tests.benchmarks.engines import random_prompt
from tests.benchmarks.measure import in_turns, seconds, table

TARGET, TOKENS, ROUNDS = 2, 4000, 200

BODIES: dict[str, dict[str, Any]] = {
    "a text": {"prompt": "Once upon a time"},
    f"{TOKENS} token ids": {"prompt": random_prompt(TOKENS)},
    "32 prompts, many fields": {
        "prompt": ["Once upon a time"] * 32,
        "temperature": 0.8,
        "top_p": 0.9,
        "logprobs": 5,
        "stop": ["\n\n", "END"],
        "logit_bias": {str(token_id): -1 for token_id in range(100)},
        "stream": True,
        "stream_options": {"include_usage": True},
    },
}


def measure(body: dict[str, Any]) -> list[float]:
    """Medians in milliseconds: parsing, checking, both."""
    from completions.completion_request import read_request
    from completions.parsers import parse_object

    text = json.dumps({"model": "any", **body}).encode()
    fields = parse_object(text)
    columns = in_turns(
        ROUNDS,
        lambda: seconds(lambda: parse_object(text)),
        lambda: seconds(lambda: read_request(fields)),
    )
    parts = [1e3 * statistics.median(column) for column in columns]
    return [*parts, sum(parts)]


def main() -> None:
    """Measure and print."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    table(
        f"Parsing and checking a body, ms; target: less than {TARGET} for {TOKENS} token ids",
        ["body", "parse", "check", "both"],
        [[name, *measure(body)] for name, body in BODIES.items()],
    )


if __name__ == "__main__":
    main()
