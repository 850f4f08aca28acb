"""Bytes in, frames out, whatever pieces the bytes come in. Holds one frame and one piece."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Final

from crucible.errors import ProtocolBroken
from crucible.wire.frames import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAX_PAYLOAD,
    NONCE_BYTES,
    Frame,
    Kind,
    check_header,
)

PIECE_BYTES: Final = 262_144
CAPACITY: Final = HEADER_BYTES + MAX_PAYLOAD + PIECE_BYTES


class Decoder:
    """One buffer of fixed size: fill `room()`, tell `filled()` how much, take `frames()`.

    With `nonce` all is thrown away until the HELLO that answers it, which is the first frame.
    After ProtocolBroken the decoder stays broken.
    """

    __slots__ = ("_broken", "_buffer", "_end", "_start", "_view", "_wanted")

    def __init__(self, *, nonce: bytes = b"") -> None:
        # Mapped, because of a bytearray every page is touched: the channel of an idle machine uses one of 80.
        self._buffer = mmap(-1, CAPACITY)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._wanted = MAGIC + nonce if nonce else b""
        self._broken: ProtocolBroken | None = None

    @property
    def held(self) -> int:
        """Bytes that are here and not yet part of a frame that was taken."""
        return self._end - self._start

    def room(self) -> memoryview:
        """Where the next bytes go. Never empty once `frames()` has been exhausted."""
        if self._start == self._end:
            self._start = self._end = 0
        elif CAPACITY - self._end < PIECE_BYTES:
            held = self.held
            self._buffer[:held] = self._buffer[self._start : self._end]
            self._start, self._end = 0, held
        return self._view[self._end :]

    def filled(self, count: int) -> None:
        self._end += count

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """The frames that `data` completes, for bytes that did not arrive in `room()`."""
        rest = memoryview(data)
        while rest:
            room = self.room()
            taken = min(len(room), len(rest))
            room[:taken] = rest[:taken]
            rest = rest[taken:]
            self.filled(taken)
            yield from self.frames()

    def frames(self) -> Iterator[Frame]:
        """Every whole frame that is held, then nothing until more is filled in."""
        if self._broken is not None:
            raise self._broken
        try:
            while (frame := self._next()) is not None:
                yield frame
        except ProtocolBroken as broken:
            self._broken = broken
            raise

    def _next(self) -> Frame | None:
        if self._wanted and not self._seek():
            return None
        if self._end - self._start < HEADER_BYTES:
            return None
        _, kind_number, channel, _, stream, length = header = HEADER.unpack_from(
            self._buffer, self._start
        )
        kind = check_header(*header)
        payload_at = self._start + HEADER_BYTES
        if self._end - payload_at < length:
            return None
        payload = bytes(self._view[payload_at : payload_at + length])
        if kind_number <= Kind.HELLO and not payload.startswith(MAGIC):
            raise ProtocolBroken(f"a {kind.name} frame has the wrong magic")
        self._start = payload_at + length
        self._wanted = b""
        return Frame(kind, channel, stream, payload)

    def _seek(self) -> bool:
        """Moves to the header before the wanted magic and nonce, dropping all that cannot be it."""
        searched_from = self._start + HEADER_BYTES
        while (found := self._buffer.find(self._wanted, searched_from, self._end)) >= 0:
            if self._is_hello(found - HEADER_BYTES):
                self._start = found - HEADER_BYTES
                return True
            searched_from = found + 1
        keep = HEADER_BYTES + len(MAGIC) + NONCE_BYTES - 1
        self._start = max(self._start, self._end - keep)
        return False

    def _is_hello(self, at: int) -> bool:
        try:
            return check_header(*HEADER.unpack_from(self._buffer, at)) is Kind.HELLO
        except ProtocolBroken:
            return False
