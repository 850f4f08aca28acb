"""Signals as events of a poll loop: each arrives as a byte on a descriptor, in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any

_NUDGE = b"\0"


class Wakeup:
    """A descriptor that becomes readable by a signal or by a nudge from a thread.

    While the block lasts the given signals do nothing but that.
    """

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._numbers = tuple(numbers)
        self._saved: dict[int, Any] = {}
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._saved_writer = -1

    def __enter__(self) -> Wakeup:
        if self._numbers:
            self._saved_writer = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in self._numbers:
            # What whoever started us ignores, as nohup does, stays ignored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._saved[number] = signal.signal(number, _noted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._saved.items():
            signal.signal(number, handler)
        if self._numbers:
            signal.set_wakeup_fd(self._saved_writer)
        reader, self._reader = self._reader, -1
        os.close(reader)
        # The writer stays open: a thread that is still stuck in a write may nudge at any time.

    def fileno(self) -> int:
        return self._reader

    def nudge(self) -> None:
        try:
            os.write(self._writer, _NUDGE)
        except OSError:
            return  # full: it is readable already; nobody reads: nobody waits

    def numbers(self) -> list[int]:
        """The signals that came since the last call."""
        try:
            return [byte for byte in os.read(self._reader, 4096) if byte]
        except BlockingIOError:
            return []


def _noted(number: int, frame: FrameType | None) -> None:
    """The wakeup descriptor has it."""
