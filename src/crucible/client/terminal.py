"""The user's own terminal: raw while a guest's terminal is shown in it, and always given back."""

from __future__ import annotations

import contextlib
import os
import stat
import termios
import time
import tty
from types import TracebackType
from typing import Any

DETACH_KEYS = b"\x10\x11"
HELD_KEY_S = 0.7

_NULL_DEVICE = os.makedev(1, 3)


class RawTerminal:
    """Keys go through unread while the block lasts. Entering twice is the way to be raw again after a stop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._saved: list[Any] | None = None

    def __enter__(self) -> RawTerminal:
        return self

    def begin(self) -> None:
        # A terminal that has hung up has no mode; reading it will tell.
        with contextlib.suppress(termios.error):
            if self._saved is None:
                self._saved = termios.tcgetattr(self._descriptor)
            tty.setraw(self._descriptor, termios.TCSADRAIN)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._saved is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._saved)
            self._saved = None


class DetachKeys:
    """Finds Ctrl-P Ctrl-Q among the keys. A Ctrl-P alone is held back until it is clear that it is meant."""

    def __init__(self) -> None:
        self._held_since: float | None = None
        self.is_complete = False

    @property
    def is_holding(self) -> bool:
        return self._held_since is not None

    @property
    def is_overdue(self) -> bool:
        return self._held_since is not None and time.monotonic() >= self._held_since + HELD_KEY_S

    def feed(self, keys: bytes) -> bytes:
        """The keys for the guest: without those that are still held or belong to the sequence."""
        if self.is_holding:
            keys = self.release() + keys
        before, found, _ = keys.partition(DETACH_KEYS)
        if found:
            self.is_complete = True
            return before
        if keys.endswith(DETACH_KEYS[:1]):
            self._held_since = time.monotonic()
            return keys[:-1]
        return keys

    def release(self) -> bytes:
        self._held_since = None
        return DETACH_KEYS[:1]


def window_size(*descriptors: int) -> tuple[int, int] | None:
    """Rows and columns of the first descriptor that is a terminal which knows them."""
    for descriptor in descriptors:
        try:
            columns, rows = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if rows and columns:
            return rows, columns
    return None


def is_in_background(descriptor: int) -> bool:
    """Reading a terminal that another job holds would stop us."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:
        return False


def has_input(descriptor: int) -> bool:
    """Whether anything could ever be read: not from a closed descriptor, nor from /dev/null."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL_DEVICE)
