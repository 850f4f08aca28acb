"""What was measured and what it should be: samples, their percentiles, targets and the verdict on them.

Every figure is one of which less is better. Nothing here takes a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["ms", "s", "MB", "count"]
Verdict = Literal["met", "missed", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    count: int
    p50: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMostTimes:
    """At most so many times what another figure is."""

    factor: float
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FasterThan:
    """At least so many times faster than another figure."""

    factor: float
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMost:
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesAtLeast:
    """A figure in seconds that stands for moving so many megabytes."""

    megabytes: float
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TailAtMost:
    """Its 99th percentile is at most so many times its median."""

    factor: float


Target = AtMostTimes | FasterThan | AtMost | MovesAtLeast | TailAtMost


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row. Without samples, `why_missing` says why there are none."""

    key: str
    name: str
    unit: Unit = "ms"
    samples: tuple[float, ...] = ()
    targets: tuple[Target, ...] = ()
    why_missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was asked for, what was found, and whether that is enough."""

    wanted: str
    found: str
    verdict: Verdict


def summarize(samples: Sequence[float]) -> Summary:
    """Percentiles by nearest rank: each is a sample that really occurred."""
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("there is nothing to summarize")

    def rank(percent: float) -> float:
        return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]

    return Summary(count=len(ordered), p50=rank(50), p95=rank(95), p99=rank(99), max=ordered[-1])


def judge(figure: Figure, figures: Mapping[str, Figure]) -> list[Judgement]:
    """One for each target, by the median unless the target is about the tail."""
    return [_judge(target, figure, figures) for target in figure.targets]


def _judge(target: Target, figure: Figure, figures: Mapping[str, Figure]) -> Judgement:
    match target:
        case AtMostTimes(factor=factor, other=other):
            wanted = f"at most {factor:g} x {_name(other, figures)}"
            ratio = _ratio(figure, figures.get(other))
            return _verdict(wanted, ratio, "{:.2f} x", ratio is not None and ratio <= factor)
        case FasterThan(factor=factor, other=other):
            wanted = f"at least {factor:g} x faster than {_name(other, figures)}"
            ratio = _ratio(figures.get(other), figure)
            return _verdict(wanted, ratio, "{:.1f} x", ratio is not None and ratio >= factor)
        case AtMost(limit=limit):
            unit = "" if figure.unit == "count" else f" {figure.unit}"
            value = _median(figure)
            fits = value is not None and value <= limit
            return _verdict(f"at most {limit:g}{unit}", value, f"{{:.3g}}{unit}", fits)
        case MovesAtLeast(megabytes=megabytes, per_second=per_second):
            seconds = _median(figure)
            rate = megabytes / seconds if seconds else None
            fits = rate is not None and rate >= per_second
            return _verdict(f"at least {per_second:g} MB/s", rate, "{:.0f} MB/s", fits)
        case TailAtMost(factor=factor):
            ratio = _tail(figure)
            fits = ratio is not None and ratio <= factor
            return _verdict(f"p99 at most {factor:g} x its p50", ratio, "{:.2f} x", fits)


def _verdict(wanted: str, value: float | None, form: str, is_met: bool) -> Judgement:
    if value is None:
        return Judgement(wanted=wanted, found="", verdict="not measured")
    return Judgement(wanted=wanted, found=form.format(value), verdict="met" if is_met else "missed")


def _ratio(upper: Figure | None, lower: Figure | None) -> float | None:
    if upper is None or lower is None:
        return None
    above, below = _median(upper), _median(lower)
    return above / below if above is not None and below else None


def _tail(figure: Figure) -> float | None:
    if not figure.samples:
        return None
    found = summarize(figure.samples)
    return found.p99 / found.p50 if found.p50 else None


def _median(figure: Figure) -> float | None:
    return summarize(figure.samples).p50 if figure.samples else None


def _name(key: str, figures: Mapping[str, Figure]) -> str:
    return f"`{figures[key].name}`" if key in figures else f"`{key}`"
