"""Charts as numbers for an SVG; the template draws them, the style sheet colours them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 12, 24
MAX_SERIES = 6
NUM_LABELS = 8

Series = tuple[str, Sequence[float | None]]


@dataclass(frozen=True)
class Bar:
    """A part of a stacked bar; lengths are in the chart's units, written for SVG."""

    x: str
    y: str
    width: str
    height: str
    series: int
    title: str


@dataclass(frozen=True)
class Line:
    """A polyline and the points that tell their value."""

    path: str
    series: int
    points: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Chart:
    """Everything that the template draws; `rows` are the same numbers as a table."""

    title: str
    legend: list[tuple[int, str]]
    y_ticks: list[tuple[str, str]]
    x_ticks: list[tuple[str, str]]
    rows: list[tuple[str, list[str]]]
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT


class _Scale:
    """From a day's number and a value to a place in the picture."""

    def __init__(self, num_days: int, largest: float) -> None:
        self.slot = (WIDTH - LEFT - RIGHT) / max(num_days, 1)
        self.step = _round_step(largest / 4)
        self.top = self.step * max(math.ceil(largest / self.step), 1)

    def x(self, day: int) -> float:
        return LEFT + (day + 0.5) * self.slot

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)

    def y_ticks(self, unit: str) -> list[tuple[str, str]]:
        count = round(self.top / self.step)
        values = [self.step * number for number in range(count + 1)]
        return [(f"{self.y(value):.1f}", short(value, unit)) for value in values]

    def x_ticks(self, days: Sequence[str]) -> list[tuple[str, str]]:
        every = math.ceil(len(days) / NUM_LABELS)
        shown = range((len(days) - 1) % every, len(days), every)
        return [(f"{self.x(day):.1f}", days[day]) for day in shown]


def stacked_bars(title: str, days: Sequence[str], series: Sequence[Series]) -> Chart:
    """A bar per day, made of the series from the bottom up."""
    totals = [sum(values[day] or 0 for _, values in series) for day in range(len(days))]
    scale = _Scale(len(days), max(totals, default=0))
    bars = []
    for day, label in enumerate(days):
        below = 0.0
        for number, (name, values) in enumerate(series):
            value = values[day] or 0
            if not value:
                continue
            top, bottom = scale.y(below + value), scale.y(below)
            bars.append(
                Bar(
                    f"{scale.x(day) - 0.36 * scale.slot:.1f}",
                    f"{top:.1f}",
                    f"{0.72 * scale.slot:.1f}",
                    f"{bottom - top:.1f}",
                    number,
                    f"{label} · {name}: {value:,.0f}",
                )
            )
            below += value
    return Chart(title, bars=bars, **_frame(scale, days, series, ""))


def lines(title: str, days: Sequence[str], series: Sequence[Series]) -> Chart:
    """A line per series of seconds; days without a value are left out."""
    largest = max((value or 0 for _, values in series for value in values), default=0)
    scale = _Scale(len(days), largest)
    drawn = []
    for number, (name, values) in enumerate(series):
        points = [
            (f"{scale.x(day):.1f}", f"{scale.y(value):.1f}", f"{days[day]} · {name}: {value:.3f} s")
            for day, value in enumerate(values)
            if value is not None
        ]
        drawn.append(Line(" ".join(f"{x},{y}" for x, y, _ in points), number, points))
    return Chart(title, lines=drawn, **_frame(scale, days, series, " s"))


def _frame(
    scale: _Scale, days: Sequence[str], series: Sequence[Series], unit: str
) -> dict[str, Any]:
    return {
        "legend": [(number, name) for number, (name, _) in enumerate(series)],
        "y_ticks": scale.y_ticks(unit),
        "x_ticks": scale.x_ticks(days),
        "rows": [
            (label, ["-" if v[day] is None else short(v[day] or 0, unit) for _, v in series])
            for day, label in enumerate(days)
        ],
    }


def short(value: float, unit: str = "") -> str:
    """A number in few characters: 1.2k, 3.4M, 0.25 s."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}{unit}"
    return f"{value:.3g}{unit}"


def _round_step(rough: float) -> float:
    """The next larger of 1, 2 or 5 times a power of ten."""
    if rough <= 0:
        return 1
    power = math.pow(10, math.floor(math.log10(rough)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
