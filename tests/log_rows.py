"""A request log as a busy site would have it, for tests of the admin and its benchmark.

`python -m tests.log_rows 500` adds rows to the database of DJANGO_SETTINGS_MODULE.
"""

import itertools
import random
import sys
import uuid
from datetime import timedelta

DAYS = 14
BATCH_ROWS = 5_000
MODELS = ("smollm2-135m-instruct", "smollm2-135m-instruct", "qwen3-0.6b")
USERS = ("ada", "grace", "alan", "nightly report", "")
STATUSES = (*(200,) * 44, 422, 404, 499, 503)
ERRORS = {
    422: "temperature: must be less than or equal to 2.",
    404: "The model `gpt-5` does not exist.",
    499: "The client went away.",
    503: "The queue is full.",
}
WRITTEN = (
    ("Write a title for a talk about tide pools.", " Small worlds between two tides"),
    ("Q: What is the capital of Norway?\nA:", " Oslo."),
    ("def fibonacci(n):\n", "    if n < 2:\n        return n\n    return fibonacci(n - 1) + …"),
    ("Summarize:\nThe meeting moved to Thursday.", " Meeting: now on Thursday."),
    ("Translate to French: good morning\n", " bonjour"),
    ("List three rivers of Europe:\n1.", " Danube\n2. Rhine\n3. Loire"),
)
PARAMETERS = (
    {},
    {"temperature": 0},
    {"max_tokens": 64, "stop": ["\n\n"]},
    {"top_p": 0.9, "seed": 7},
)


def rows(count, days=DAYS, seed=0):
    """Requests, oldest first, each with its choices; the last one is a minute old."""
    from django.utils import timezone

    draw = random.Random(seed)
    now = timezone.now()
    for number in range(count):
        age = timedelta(days=days) * (1 - (number + 1) / count)
        yield _request(draw, now - timedelta(minutes=1) - age)


def _request(draw, created):
    from completions.models import LoggedChoice, RequestLog

    request_id = f"cmpl-{uuid.UUID(int=draw.getrandbits(128)).hex}"
    status = draw.choice(STATUSES)
    prompt, text = draw.choice(WRITTEN)
    row = RequestLog(
        request_id=request_id,
        created=created,
        client_address=f"10.0.0.{draw.randrange(2, 30)}",
        model="gpt-5" if status == 404 else draw.choice(MODELS),
        user=draw.choice(USERS),
        status_code=status,
        error=ERRORS.get(status, ""),
        stream=draw.random() < 0.5,
        prompt_kind="text",
        prompt=prompt,
        parameters=draw.choice(PARAMETERS),
        duration=draw.uniform(0.001, 0.02),
    )
    if status != 200:
        return row, []
    row.prompt_tokens = draw.randrange(8, 600)
    row.cached_tokens = row.prompt_tokens // 64 * 64
    row.completion_tokens = draw.randrange(4, 128)
    row.queued_seconds = draw.expovariate(8)
    row.prefill_seconds = (row.prompt_tokens - row.cached_tokens) / 400 + 0.02
    row.decode_seconds = row.completion_tokens / draw.uniform(20, 45)
    row.time_to_first_token = row.queued_seconds + row.prefill_seconds
    row.duration += row.time_to_first_token + row.decode_seconds
    choice = LoggedChoice(
        log_id=request_id,
        index=0,
        text=text,
        num_tokens=row.completion_tokens,
        finish_reason=draw.choice(("stop", "stop", "length")),
    )
    return row, [choice]


def fill(count, days=DAYS):
    """Save that many requests."""
    from completions.models import LoggedChoice, RequestLog

    made = rows(count, days)
    while batch := list(itertools.islice(made, BATCH_ROWS)):
        RequestLog.objects.bulk_create([row for row, _ in batch])
        LoggedChoice.objects.bulk_create([choice for _, choices in batch for choice in choices])


if __name__ == "__main__":
    import django

    django.setup()
    fill(int(sys.argv[1]))
