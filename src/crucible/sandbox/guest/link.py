"""One socket under asyncio: frames come out of it as calls, bytes go in under back-pressure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from crucible.errors import ProtocolBroken
from crucible.wire.decoder import Decoder
from crucible.wire.frames import WINDOW_BYTES, Frame

UNSENT_BYTES: Final = WINDOW_BYTES


class Link(asyncio.BufferedProtocol):
    """Never stops reading: what may be under way is bounded by the windows of the streams."""

    def __init__(
        self,
        decoder: Decoder,
        *,
        on_frame: Callable[[Frame], None],
        on_writable: Callable[[], None],
        on_lost: Callable[[ProtocolBroken | None], None],
    ) -> None:
        self._decoder = decoder
        self._on_frame = on_frame
        self._on_writable = on_writable
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self.is_full = False
        self.is_lost = False

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    async def writable(self) -> None:
        """Returns when there is room to send, or nobody left to send to."""
        while self.is_full and not self.is_lost:
            await self._woken()

    async def lost(self) -> None:
        while not self.is_lost:
            await self._woken()

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.write(data)

    def close(self) -> None:
        """Sends what is still unsent, then closes."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_lost:
            return
        self._decoder.filled(nbytes)
        try:
            for frame in self._decoder.frames():
                self._on_frame(frame)
        except ProtocolBroken as broken:
            self._lose(broken)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(None)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._on_writable()
        self._wake()

    def _lose(self, broken: ProtocolBroken | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._wake()
        self._on_lost(broken)

    async def _woken(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
