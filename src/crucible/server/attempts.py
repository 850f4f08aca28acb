"""How often somebody may try to sign in: from one address, and as one user, whoever asks.

What failed counts; it is forgiven one by one with time. So a flood is stopped before any password is worked on.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from crucible.errors import TooManyAttempts

OF_ADDRESS = 20
ADDRESS_FORGIVEN_S = 6.0
OF_NAME = 10
NAME_FORGIVEN_S = 30.0
_MOST_KEPT = 10_000


class Attempts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._addresses = _Failures(OF_ADDRESS, ADDRESS_FORGIVEN_S, clock)
        self._names = _Failures(OF_NAME, NAME_FORGIVEN_S, clock)

    def begin(self, address: str, name: str = "") -> None:
        """Counts as a failure until it is told to be none. Raises TooManyAttempts, and then counts nothing more."""
        wait_s = max(self._addresses.wait_s(address), self._names.wait_s(name) if name else 0.0)
        if wait_s > 0:
            raise TooManyAttempts(wait_s)
        self._addresses.add(address)
        if name:
            self._names.add(name)

    def succeeded(self, address: str, name: str = "") -> None:
        self._addresses.take_back(address)
        if name:
            self._names.take_back(name)


class _Failures:
    def __init__(self, most: int, forgiven_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._forgiven_s = forgiven_s
        self._clock = clock
        # How many there were at which moment, by whom. Of too many the oldest is forgotten.
        self._kept: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, who: str) -> float:
        over = self._count(who) - (self._most - 1)
        return over * self._forgiven_s if over > 0 else 0.0

    def add(self, who: str) -> None:
        self._keep(who, self._count(who) + 1)

    def take_back(self, who: str) -> None:
        self._keep(who, max(0.0, self._count(who) - 1))

    def _count(self, who: str) -> float:
        count, at = self._kept.get(who, (0.0, 0.0))
        return max(0.0, count - (self._clock() - at) / self._forgiven_s)

    def _keep(self, who: str, count: float) -> None:
        self._kept.pop(who, None)
        if count:
            self._kept[who] = (count, self._clock())
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
