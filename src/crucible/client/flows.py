"""The bytes of a channel on their way: out of this process within a window, or into a descriptor at its pace."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Protocol

from crucible.client import protocol


class Outbound:
    """Input on its way to the service. It is kept until it was taken, so that it can be sent again."""

    def __init__(self, taken: int = 0) -> None:
        """`taken`: so much input the command had before ours."""
        self._kept = bytearray()
        self._taken = taken
        self.is_ended = False

    @property
    def room(self) -> int:
        return 0 if self.is_ended else protocol.WINDOW - len(self._kept)

    def frame(self, data: bytes) -> bytes:
        self._kept += data
        return protocol.data_frame(protocol.INPUT, data)

    def end(self) -> bytes:
        self.is_ended = True
        return protocol.end_frame(protocol.INPUT)

    def take(self, count: int) -> None:
        count = min(count, len(self._kept))
        self._taken += count
        del self._kept[:count]

    def again(self, offset: int) -> bytes:
        """Frames that bring a service which has everything up to `offset` to where we are."""
        self.take(max(0, offset - self._taken))
        frames = b""
        if self._kept:
            frames = protocol.data_frame(protocol.INPUT, bytes(self._kept))
        return frames + protocol.end_frame(protocol.INPUT) if self.is_ended else frames


class Sink(Protocol):
    """Where an output channel goes. `written` counts what really arrived there."""

    @property
    def written(self) -> int: ...
    @property
    def is_idle(self) -> bool: ...
    def put(self, data: bytes) -> None: ...
    def check(self) -> None:
        """Raises the OSError that writing met, if any."""
        ...


class CallSink:
    """Hands bytes to a function of this process."""

    is_idle = True

    def __init__(self, function: Callable[[bytes], object]) -> None:
        self._function = function
        self.written = 0

    def put(self, data: bytes) -> None:
        self._function(data)
        self.written += len(data)

    def check(self) -> None:
        return


class DescriptorSink:
    """Writes to a descriptor from a thread: neither a full pipe nor a stopped terminal holds up the exchange.

    The descriptor is shared with whoever started us, so it is not made non-blocking.
    """

    def __init__(self, descriptor: int, wake: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._wake = wake
        self._pending: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None
        self.accepted = 0
        self.written = 0

    @property
    def is_idle(self) -> bool:
        return self.written == self.accepted

    def put(self, data: bytes) -> None:
        self.accepted += len(data)
        self._pending.put(data)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, daemon=True)
            self._thread.start()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def _write_all(self) -> None:
        while self._error is None:
            rest = memoryview(self._pending.get())
            while rest:
                try:
                    count = os.write(self._descriptor, rest)
                except OSError as error:
                    self._error = error
                    break
                rest = rest[count:]
                self.written += count
            self._wake()
