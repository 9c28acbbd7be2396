"""The time to the first token: of many candidates, and of a prompt that is asked again.

python -m tests.benchmarks.first_token
"""

import statistics
from pathlib import Path

from engine.engine import Engine
from tests.benchmarks.engines import make_engine, random_prompt, request
from tests.benchmarks.measure import in_turns, median_ratio, seconds, table
from tests.benchmarks.models import default_model

CANDIDATES, LONG = 16, 2000
TARGET_CANDIDATES, TARGET_AGAIN = 1.2, 0.15
ROUNDS, ROUNDS_AGAIN = 15, 5


def first_token(engine: Engine, prompt: list[int], n: int = 1) -> float:
    """Seconds until every candidate has its first token; the request ends with it."""
    sampled = {"temperature": 1.0, "max_tokens": 4, "n": n}
    each = request(prompt, **sampled)
    engine.add(each)

    def until_first() -> None:
        while not any(output.candidates for output in engine.step()):
            pass

    passed = seconds(until_first)
    engine.abort(each.request_id)
    return passed


def compare_candidates(engine: Engine, size: int) -> list[object]:
    """A row of the table: many candidates and one, each time of a new prompt."""
    times = in_turns(
        ROUNDS,
        lambda: first_token(engine, random_prompt(size), CANDIDATES),
        lambda: first_token(engine, random_prompt(size)),
    )
    return _row(f"n={CANDIDATES}, n=1: {size} tokens", times, TARGET_CANDIDATES)


def compare_again(engine: Engine) -> list[object]:
    """A row of the table: a prompt that is known, and before it was."""
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS_AGAIN):
        prompt = random_prompt(LONG)
        times[1].append(first_token(engine, prompt))
        times[0].append(first_token(engine, prompt))
    return _row(f"again, first: {LONG} tokens", times, TARGET_AGAIN)


def _row(name: str, times: list[list[float]], target: float) -> list[object]:
    milliseconds = [1e3 * statistics.median(column) for column in times]
    return [name, *milliseconds, median_ratio(*times), f"<= {target}"]


def main(model: Path | None = None) -> None:
    """Measure and print."""
    engine = make_engine(model or default_model(), prefix_reuse=True)
    rows = [compare_candidates(engine, size) for size in (16, 128, 512)]
    table(
        "Time to the first token, ms",
        ["compared", "the former", "the latter", "ratio", "target"],
        [*rows, compare_again(engine)],
    )


if __name__ == "__main__":
    main()
