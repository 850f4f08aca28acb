"""What is worth telling the people at a sandbox's commands while they wait: a denied connection, a port that opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_NOTICES = 50

Listener = Callable[[str], None]


class Notices:
    """Everyone who listens is told each text once; a sandbox that has much to say is cut short."""

    def __init__(self) -> None:
        self._listeners: list[_Told] = []

    def tell(self, text: str) -> None:
        for listener in list(self._listeners):
            listener.tell(text)

    @contextmanager
    def to(self, listener: Listener) -> Iterator[None]:
        told = _Told(listener)
        self._listeners.append(told)
        try:
            yield
        finally:
            self._listeners.remove(told)


class _Told:
    """What one listener knows already."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._texts: set[str] = set()

    def tell(self, text: str) -> None:
        if text in self._texts or len(self._texts) > MOST_NOTICES:
            return
        self._texts.add(text)
        if len(self._texts) > MOST_NOTICES:
            text = "Further notices of this sandbox are not shown; see `crucible logs --network`"
        self._listener(text)
