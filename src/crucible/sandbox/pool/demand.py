"""How many machines of each shape should wait: as many as were lately asked for, between a minimum and a maximum."""

from __future__ import annotations

from collections import deque

from crucible.sandbox.pool.shape import Shape

WINDOW_S = 10.0
FORGET_S = 600.0
MOST_SHAPES = 32
_MOST_TIMES = 1024


class Demand:
    """Times are given, never asked for. The first shape is what is kept ready when nobody has asked yet."""

    def __init__(self, *, minimum: int, maximum: int) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._times: dict[Shape, deque[float]] = {}

    def expect(self, shape: Shape, now: float) -> None:
        """Somebody may soon ask for it."""
        self._times.setdefault(shape, deque(maxlen=_MOST_TIMES))
        if not self._times[shape]:
            self._times[shape].append(now - WINDOW_S)

    def asked(self, shape: Shape, now: float) -> None:
        self._times.setdefault(shape, deque(maxlen=_MOST_TIMES)).append(now)
        if len(self._times) > MOST_SHAPES:
            del self._times[min(self._times, key=lambda known: self._times[known][-1])]

    def forget(self, shape: Shape) -> None:
        self._times.pop(shape, None)

    def wanted(self, now: float) -> dict[Shape, int]:
        """For every shape that somebody asked for lately, the latest first. Together no more than the maximum."""
        room = self._maximum
        wanted: dict[Shape, int] = {}
        latest = sorted(self._times, key=lambda shape: self._times[shape][-1], reverse=True)
        for number, shape in enumerate(latest):
            times = self._times[shape]
            is_kept = number == 0 or now - times[-1] <= FORGET_S
            recent = sum(now - time <= WINDOW_S for time in times)
            count = min(room, self._minimum + recent) if is_kept else 0
            wanted[shape] = count
            room -= count
        return wanted
