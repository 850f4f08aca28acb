"""What waiting means in a thread. Its twin in `_async` has the same names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# What to call with a piece of text as it comes.
Told = Callable[[str], object]


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def beside(work: Callable[[], T]) -> T:
    return work()


def tell(told: Told | None, text: str) -> None:
    if told is not None:
        told(text)


def finish(work: Callable[[], T]) -> T:
    return work()


class Background:
    """Work that goes on by itself, and ends with the program at the latest."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name="crucible-client", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Nothing to do: it was told by who asked, and notices at its next step."""
