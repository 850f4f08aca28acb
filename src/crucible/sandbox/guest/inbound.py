"""What has come on a stream and was not taken yet: bounded by the windows, in order of arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from crucible.errors import ProtocolBroken
from crucible.wire.frames import MAX_PAYLOAD, WINDOW_BYTES

# A guest may send its window byte by byte. Beyond this many pieces the bytes are put to the last
# piece of their channel, so that bookkeeping cannot outgrow what it keeps.
MANY_PIECES: Final = 256


class Piece(NamedTuple):
    channel: int
    offset: int
    data: bytes


class Inbound:
    """All channels of one stream on which the guest may send."""

    def __init__(self, channels: Iterable[int]) -> None:
        self._lanes = {channel: _Lane() for channel in channels}
        self._queue: deque[_Held] = deque()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def has_ended(self, channels: Iterable[int]) -> bool:
        return all(self._lanes[channel].is_ended for channel in channels)

    def begin_at(self, channel: int, offset: int) -> int:
        """Counts from `offset`, as after a takeover, and returns the limit that follows from it."""
        lane = self._lane(channel)
        lane.received = lane.taken = offset
        lane.limit = offset + WINDOW_BYTES
        return lane.limit

    def add(self, channel: int, data: bytes) -> None:
        lane = self._lane(channel)
        if lane.is_ended:
            raise ProtocolBroken(f"data came on channel {channel} after its end")
        offset = lane.received
        if offset + len(data) > lane.limit:
            raise ProtocolBroken(
                f"{offset + len(data)} bytes came on channel {channel}, "
                f"where {lane.limit} were allowed"
            )
        lane.received += len(data)
        last = lane.last
        if last is not None and self._joins(last, len(data)):
            last.add(data)
            return
        lane.last = _Held(channel, offset, data)
        self._queue.append(lane.last)

    def end(self, channel: int) -> None:
        lane = self._lane(channel)
        if lane.is_ended:
            raise ProtocolBroken(f"channel {channel} ended twice")
        lane.is_ended = True

    def take(self) -> Piece:
        """The oldest piece. It counts against its window until it is acknowledged."""
        held = self._queue.popleft()
        lane = self._lanes[held.channel]
        if lane.last is held:
            lane.last = None
        return Piece(held.channel, held.offset, bytes(held.data))

    def acknowledge(self, channel: int, count: int) -> int | None:
        """So many more bytes are safe with their reader: the new limit, if it is time to grant one."""
        lane = self._lanes[channel]
        lane.taken = min(lane.taken + count, lane.received)
        limit = lane.taken + WINDOW_BYTES
        if lane.is_ended or limit - lane.limit < WINDOW_BYTES // 4:
            return None
        lane.limit = limit
        return limit

    def _lane(self, channel: int) -> _Lane:
        lane = self._lanes.get(channel)
        if lane is None:
            raise ProtocolBroken(f"bytes came on channel {channel} of a stream that has no such")
        return lane

    def _joins(self, last: _Held, more: int) -> bool:
        if len(self._queue) >= MANY_PIECES:
            return True
        return self._queue[-1] is last and len(last.data) + more <= MAX_PAYLOAD


class _Lane:
    __slots__ = ("is_ended", "last", "limit", "received", "taken")

    def __init__(self) -> None:
        self.received = 0
        self.taken = 0
        self.limit = WINDOW_BYTES
        self.is_ended = False
        self.last: _Held | None = None


class _Held:
    __slots__ = ("channel", "data", "offset")

    def __init__(self, channel: int, offset: int, data: bytes) -> None:
        self.channel = channel
        self.offset = offset
        self.data: bytes | bytearray = data

    def add(self, data: bytes) -> None:
        if isinstance(self.data, bytes):
            self.data = bytearray(self.data)
        self.data += data
