"""What is worth telling the people at a sandbox's commands while they wait: a denied connection, a port that opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_NOTICES = 50

Listener = Callable[[str], None]


class Notices:
    """Each text is told once, to whoever listens then; a sandbox that has much to say is cut short."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._told: set[str] = set()

    def tell(self, text: str) -> None:
        if not self._listeners or text in self._told or len(self._told) > MOST_NOTICES:
            return
        self._told.add(text)
        if len(self._told) > MOST_NOTICES:
            text = "Further notices of this sandbox are not shown; see `crucible logs --network`"
        for listener in list(self._listeners):
            listener(text)

    @contextmanager
    def to(self, listener: Listener) -> Iterator[None]:
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
