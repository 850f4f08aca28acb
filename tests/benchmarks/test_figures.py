"""Percentiles, targets and verdicts, from samples that are given. Nothing is timed here."""

from __future__ import annotations

import pytest
from benchmarks.figures import (
    AtMost,
    AtMostTimes,
    FasterThan,
    Figure,
    Judgement,
    MovesAtLeast,
    TailAtMost,
    Target,
    judge,
    summarize,
)


def figure(key: str, *samples: float, targets: tuple[Target, ...] = (), unit: str = "ms") -> Figure:
    return Figure(key=key, name=key, samples=samples, targets=targets, unit=unit)  # type: ignore[arg-type]


def judged(one: Figure, *others: Figure) -> list[Judgement]:
    return judge(one, {item.key: item for item in (one, *others)})


def test_percentiles_are_samples_that_occurred() -> None:
    found = summarize([float(number) for number in range(1, 101)])
    assert (found.count, found.p50, found.p95, found.p99, found.max) == (100, 50, 95, 99, 100)


def test_the_order_of_samples_does_not_matter() -> None:
    assert summarize([3, 1, 2]) == summarize([1, 2, 3])


def test_one_sample_is_every_percentile() -> None:
    found = summarize([7.0])
    assert (found.p50, found.p95, found.p99, found.max) == (7, 7, 7, 7)


def test_nothing_cannot_be_summarized() -> None:
    with pytest.raises(ValueError, match="nothing"):
        summarize([])


@pytest.mark.parametrize("factor, verdict", [(6, "met"), (5, "met"), (4.99, "missed")])
def test_a_multiple_of_another_figure_is_judged_by_the_medians(factor: float, verdict: str) -> None:
    target = AtMostTimes(factor=factor, other="base")
    slow = figure("slow", 40, 50, 1000, targets=(target,))
    (found,) = judged(slow, figure("base", 1, 10, 11))
    assert (found.verdict, found.found) == (verdict, "5.00 x")
    assert found.wanted == f"at most {factor:g} x `base`"


@pytest.mark.parametrize("worst, verdict", [(40, "met"), (41, "missed")])
def test_a_tail_is_judged_by_the_figures_own_median(worst: float, verdict: str) -> None:
    samples = [10.0] * 98 + [worst] * 2
    (found,) = judged(figure("run", *samples, targets=(TailAtMost(factor=4),)))
    assert (found.verdict, found.wanted) == (verdict, "p99 at most 4 x its p50")


@pytest.mark.parametrize("factor, verdict", [(20, "met"), (21, "missed")])
def test_being_faster_is_counted_the_other_way_round(factor: float, verdict: str) -> None:
    fast = figure("fast", 5, targets=(FasterThan(factor=factor, other="boot"),))
    (found,) = judged(fast, figure("boot", 100))
    assert (found.verdict, found.found) == (verdict, "20.0 x")


@pytest.mark.parametrize("limit, verdict", [(25, "met"), (24.9, "missed")])
def test_a_limit_includes_itself(limit: float, verdict: str) -> None:
    (found,) = judged(figure("idle", 25.0, unit="MB", targets=(AtMost(limit=limit),)))
    assert (found.verdict, found.found) == (verdict, "25 MB")


def test_no_failure_is_allowed_where_the_limit_is_none() -> None:
    assert judged(figure("failed", 0, unit="count", targets=(AtMost(limit=0),)))[0].verdict == "met"
    assert (
        judged(figure("failed", 1, unit="count", targets=(AtMost(limit=0),)))[0].verdict == "missed"
    )


@pytest.mark.parametrize("seconds, verdict", [(5, "met"), (5.01, "missed")])
def test_a_rate_comes_from_the_time_it_took(seconds: float, verdict: str) -> None:
    target = MovesAtLeast(megabytes=200, per_second=40)
    (found,) = judged(figure("copy", seconds, unit="s", targets=(target,)))
    assert (found.verdict, found.found) == (verdict, "40 MB/s")


@pytest.mark.parametrize(
    "target",
    [
        AtMost(limit=1),
        AtMostTimes(factor=1, other="base"),
        FasterThan(factor=1, other="base"),
        MovesAtLeast(megabytes=1, per_second=1),
    ],
)
def test_what_was_not_measured_is_never_met(target: Target) -> None:
    (found,) = judged(figure("gone", targets=(target,)), figure("base", 1))
    assert (found.verdict, found.found) == ("not measured", "")


def test_a_comparison_with_what_was_not_measured_is_none() -> None:
    run = figure("run", 5, targets=(AtMostTimes(factor=2.5, other="podman"),))
    assert judged(run, figure("podman"))[0].verdict == "not measured"
    assert judged(run)[0].verdict == "not measured"


def test_each_target_gets_its_own_verdict() -> None:
    targets = (AtMostTimes(factor=6, other="version"), FasterThan(factor=20, other="boot"))
    restore = figure("restore", 50, targets=targets)
    found = judged(restore, figure("version", 10), figure("boot", 900))
    assert [one.verdict for one in found] == ["met", "missed"]
