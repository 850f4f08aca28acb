"""Large input on a disk that host and guest share: written here, fetched there, faster than the port."""

from __future__ import annotations

import os
from typing import Final

from crucible.sandbox.backend import EXCHANGE_BYTES
from crucible.wire.frames import WINDOW_BYTES

WORTHWHILE_BYTES: Final = 16_384


class Exchange:
    """Slots of one window each. One is free again when its bytes are acknowledged or their stream is over."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._free = list(range(0, EXCHANGE_BYTES, WINDOW_BYTES))
        self._taken: dict[int, list[tuple[int, int]]] = {}

    def lay(self, stream: int, data: memoryview, end: int) -> int | None:
        """Where the data was put, or None if there is no room; `end` is where it ends in its stream."""
        if not self._free:
            return None
        slot = self._free.pop()
        os.pwrite(self._descriptor, data, slot)
        self._taken.setdefault(stream, []).append((end, slot))
        return slot

    def acknowledge(self, stream: int, offset: int) -> None:
        """All bytes of the stream below the offset have been taken by their reader."""
        taken = self._taken.get(stream)
        if taken:
            self._free += [slot for end, slot in taken if end <= offset]
            self._taken[stream] = [item for item in taken if item[0] > offset]

    def drop(self, stream: int) -> None:
        self._free += [slot for _, slot in self._taken.pop(stream, ())]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._free.clear()
