"""The share of a step that sampling takes, with each field alone and with all of them.

python -m tests.benchmarks.sampling
"""

import statistics
import time
from pathlib import Path
from typing import Any

from engine.engine import Engine
from tests.benchmarks.engines import make_engine, random_prompt, request, start
from tests.benchmarks.measure import median_ratio, seconds, table
from tests.benchmarks.models import default_model

TARGET = 0.10
ROWS, PROMPT_TOKENS, STEPS = 32, 16, 15

FIELDS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.8},
    "top_k": {"temperature": 0.8, "top_k": 50},
    "top_p": {"temperature": 0.8, "top_p": 0.9},
    "min_p": {"temperature": 0.8, "min_p": 0.05},
    "penalties": {
        "frequency_penalty": 0.5,
        "presence_penalty": 0.5,
        "repetition_penalty": 1.1,
    },
    "logit_bias": {"logit_bias": dict.fromkeys(range(100, 150), -1.0)},
    "min_tokens": {"min_tokens": 500},
    "logprobs": {"logprobs": 5},
    "stop": {"stop": ("\n\n", "###", "END")},
}
CASES = {
    "none": {},
    **FIELDS,
    "all": {key: value for fields in FIELDS.values() for key, value in fields.items()},
    "all but top_k": {
        key: value for fields in FIELDS.values() for key, value in fields.items() if key != "top_k"
    },
}


class Stopwatch:
    """Adds up what the calls of a method take."""

    def __init__(self, owner: Any, name: str) -> None:
        self._call = getattr(owner, name)
        self.seconds = 0.0
        setattr(owner, name, self._timed)

    def _timed(self, *args: Any) -> Any:
        start = time.perf_counter()
        result = self._call(*args)
        self.seconds += time.perf_counter() - start
        return result

    def take(self) -> float:
        """Seconds since the last time."""
        passed, self.seconds = self.seconds, 0.0
        return passed


def measure(engine: Engine, watches: list[Stopwatch], params: dict[str, Any]) -> list[float]:
    """Medians of a step's milliseconds, whole, model, sampling and rest, and sampling's share."""
    defaults = {"temperature": 1.0, "n": ROWS, "max_tokens": 1000, "seed": 1}
    start(engine, [request(random_prompt(PROMPT_TOKENS), **(defaults | params))])
    for watch in watches:
        watch.take()
    steps = [[seconds(engine.step), *[watch.take() for watch in watches]] for _ in range(STEPS)]
    columns = [list(column) for column in zip(*steps, strict=True)]
    whole, model, sampling = (1e3 * statistics.median(column) for column in columns)
    share = median_ratio(columns[2], columns[0])
    return [whole, model, sampling, whole - model - sampling, share]


def main(model: Path | None = None) -> None:
    """Measure and print."""
    engine = make_engine(model or default_model())
    watches = [Stopwatch(engine._decoder, "decode"), Stopwatch(engine._sampler, "sample")]
    rows = []
    for name, params in CASES.items():
        measured = measure(engine, watches, params)
        rows.append([name, *measured, 1e3 * measured[2] / ROWS])
    table(
        f"Sampling at {ROWS} rows, ms per step; target: at most {TARGET} of it with all fields",
        ["fields", "step", "model", "sampling", "rest", "sampling's share", "µs per row"],
        rows,
    )


if __name__ == "__main__":
    main()
