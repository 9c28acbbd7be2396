"""Timing side by side, and tables.

The machine's speed drifts by tens of percent within a minute, so only ratios of things that were
timed in turns, in one run, mean anything; figures are medians.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def in_turns(rounds: int, *calls: Callable[[], float]) -> list[list[float]]:
    """What each call returns in every round; the calls take turns."""
    results = [[call() for call in calls] for _ in range(rounds)]
    return [list(column) for column in zip(*results, strict=True)]


def median_ratio(above: list[float], below: list[float]) -> float:
    """The median of the rounds' own ratios."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def table(title: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a Markdown table to standard output."""
    names = list(head)
    lines = [" | ".join(map(_cell, row)) for row in (names, ["---"] * len(names), *rows)]
    sys.stdout.write(f"\n{title}\n\n" + "".join(f"| {line} |\n" for line in lines))
    sys.stdout.flush()


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
