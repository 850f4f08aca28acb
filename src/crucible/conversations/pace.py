"""How often a user may begin a turn: a bucket for each that fills steadily."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from crucible.errors import TooManyTurns

_MOST_USERS = 10_000


class Pace:
    """`per_minute` on average, and so many at once; 0 is no limit. Of too many users the oldest is forgotten."""

    def __init__(self, per_minute: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, user: str) -> None:
        """Raises TooManyTurns."""
        if not self._per_minute:
            return
        now, per_s = self._now(), self._per_minute / 60
        left, at = self._buckets.pop(user, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - at) * per_s)
        if left < 1.0:
            self._buckets[user] = (left, now)
            raise TooManyTurns(self._per_minute, max(1, math.ceil((1.0 - left) / per_s)))
        self._buckets[user] = (left - 1.0, now)
        if len(self._buckets) > _MOST_USERS:
            self._buckets.popitem(last=False)
