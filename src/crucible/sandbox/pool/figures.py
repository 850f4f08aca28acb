"""How long the parts of lately run commands took, as the daemon tells it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_MOST_SAMPLES = 1000


class StageFigures:
    def __init__(self) -> None:
        self._samples: dict[str, deque[float]] = {}

    def note(self, stages: Iterable[tuple[str, float]]) -> None:
        for name, seconds in stages:
            self._samples.setdefault(name, deque(maxlen=_MOST_SAMPLES)).append(seconds)

    def facts(self) -> dict[str, dict[str, float | int]]:
        """In milliseconds, of the last thousand."""
        return {
            name: {
                "count": len(samples),
                "p50_ms": _percentile_ms(samples, 50),
                "p99_ms": _percentile_ms(samples, 99),
            }
            for name, samples in self._samples.items()
        }


def _percentile_ms(samples: Iterable[float], percent: int) -> float:
    ordered = sorted(samples)
    position = min(len(ordered) - 1, len(ordered) * percent // 100)
    return round(ordered[position] * 1000, 2)
