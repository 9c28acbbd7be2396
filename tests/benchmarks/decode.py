"""Decoding: what the engine adds to the model's own time, and how it compares with Optimum.

python -m tests.benchmarks.decode
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from engine.engine import Engine
from tests.benchmarks.engines import make_engine, random_prompt, request, run_job, start
from tests.benchmarks.measure import in_turns, median_ratio, seconds, table
from tests.benchmarks.models import EXPORTED, default_model, fp32_model

TARGETS_BARE = {1: 0.95, 8: 0.93, 32: 0.90}
TARGET_GENERATE = 1.5
PROMPT_TOKENS, NEW_TOKENS = 16, 48
STEPS, ROUNDS, JOBS = 8, 15, 3


class BareLoop:
    """The engine's session and slots, with nothing around them but ids in and argmax out."""

    def __init__(self, engine: Engine, rows: int) -> None:
        self._vocab_size = engine.model.vocab_size
        self._session = engine._decoder._session
        self._ids, self._positions = np.zeros((2, rows, 1), np.int64)
        self._lengths = np.zeros(rows, np.int32)
        self._total = np.zeros((), np.int32)
        self._logits = np.empty((rows, engine._decoder.logits_width), np.float32)
        self._binding = self._session.io_binding()
        engine._cache.bind(self._binding, 0, rows)
        inputs = {
            "input_ids": self._ids,
            "position_ids": self._positions,
            "seqlens_k": self._lengths,
            "total_sequence_length": self._total,
            "logits_index": np.arange(rows),
        }
        for name, array in inputs.items():
            self._binding.bind_cpu_input(name, array)
        logits = self._logits
        self._binding.bind_output("logits", "cpu", 0, 1, logits.shape, logits.ctypes.data)

    def run(self, length: int, steps: int) -> None:
        """Decode from `length` tokens per slot on."""
        for at in range(length, length + steps):
            self._positions[:], self._lengths[:], self._total[...] = at, at, at + 1
            self._session.run_with_iobinding(self._binding)
            self._ids[:, 0] = self._logits[:, : self._vocab_size].argmax(axis=1)


class Generate:
    """Optimum's `generate` in a process of its own, because it needs torch."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.generate", str(EXPORTED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.measure([random_prompt(4)], 2)

    def measure(self, prompts: list[list[int]], max_tokens: int) -> dict[str, float]:
        """Seconds of the whole job and of one decoding step."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([prompts, max_tokens]) + "\n")
        self._process.stdin.flush()
        measured: dict[str, float] = json.loads(self._process.stdout.readline())
        return measured

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare_with_bare_loop(model: Path, rows: int, **params: Any) -> list[object]:
    """A row of the table: tokens/s of both, and their ratio."""
    engine = make_engine(model)
    settings = {"max_tokens": 1000, **params}
    start(engine, [request(random_prompt(PROMPT_TOKENS), **settings) for _ in range(rows)])
    bare = BareLoop(engine, rows)

    def run_engine() -> float:
        return seconds(lambda: [engine.step() for _ in range(STEPS)])

    def run_bare() -> float:
        length = engine._scheduler.running()[0].num_computed_tokens - STEPS
        return seconds(lambda: bare.run(length, STEPS))

    times = in_turns(ROUNDS, run_engine, run_bare)
    rates = [rows * STEPS / statistics.median(column) for column in times]
    return [rows, *rates, median_ratio(times[1], times[0]), f">= {TARGETS_BARE[rows]}"]


def compare_with_generate(engine: Engine, generate: Generate, rows: int) -> list[list[object]]:
    """Two rows of the table: a decoding step, and the whole job."""
    steps, jobs = [], []
    for _ in range(JOBS):
        prompts = [random_prompt(PROMPT_TOKENS) for _ in range(rows)]
        theirs = generate.measure(prompts, NEW_TOKENS)
        ours = run_job(engine, prompts, NEW_TOKENS)
        jobs.append((ours["whole"], theirs["whole"]))
        steps.append((ours["step"], theirs["step"]))
    table_rows = []
    for name, pairs, tokens in (("decode", steps, rows), ("job", jobs, rows * NEW_TOKENS)):
        ours, theirs = (list(column) for column in zip(*pairs, strict=True))
        rates = [tokens / statistics.median(column) for column in (ours, theirs)]
        ratio = median_ratio(theirs, ours)
        table_rows.append([rows, name, *rates, ratio, f">= {TARGET_GENERATE}"])
    return table_rows


def main() -> None:
    """Measure and print."""
    for name, model in (("int8", default_model()), ("fp32", fp32_model())):
        for kind, params in (("greedy", {}), ("temperature 1", {"temperature": 1.0})):
            table(
                f"Decoding, {name}, {kind}: the engine and a bare loop over its session, tokens/s",
                ["rows", "engine", "bare loop", "ratio", "target"],
                [compare_with_bare_loop(model, rows, **params) for rows in TARGETS_BARE],
            )
    engine, generate = make_engine(fp32_model()), Generate()
    table(
        "fp32: the engine and ORTModelForCausalLM.generate on the same export, tokens/s",
        ["rows", "what", "engine", "generate", "ratio", "target"],
        [row for rows in TARGETS_BARE for row in compare_with_generate(engine, generate, rows)],
    )
    generate.close()


if __name__ == "__main__":
    main()
