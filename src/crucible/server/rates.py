"""How often a caller may ask: a bucket for each that fills steadily and is emptied by requests."""

from __future__ import annotations

import time
from collections import OrderedDict

from crucible.errors import TooManyRequests

_MOST_CALLERS = 10_000


class Rates:
    """`per_second` on average, twice that at once; 0 is no limit. Of too many callers the oldest is forgotten."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, caller: str) -> None:
        """Raises TooManyRequests."""
        if not self._per_second:
            return
        now = time.monotonic()
        most = 2.0 * self._per_second
        left, at = self._buckets.pop(caller, (most, now))
        left = min(most, left + (now - at) * self._per_second)
        if left < 1.0:
            self._buckets[caller] = (left, now)
            raise TooManyRequests(self._per_second)
        self._buckets[caller] = (left - 1.0, now)
        if len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
