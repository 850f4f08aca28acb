"""Sockets for http.client that no server can make wait for ever: a deadline for heads, a pace for bodies."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from crucible.images.oci.proxies import Proxy
from crucible.images.oci.settings import Patience

CHUNK_BYTES = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A body that lies in a file. It can be sent again."""

    path: Path
    offset: int
    length: int


class Clock:
    """How long the next read may take. Raises TimeoutError when no time is left."""

    def __init__(self, patience: Patience) -> None:
        self.idle_s = patience.idle_s
        self._patience = patience
        self._until: float | None = None
        self._since = 0.0
        self._bytes = 0
        self.restart()

    def restart(self) -> None:
        self._until = time.monotonic() + self._patience.exchange_s

    def keep_pace(self) -> None:
        self._until, self._since, self._bytes = None, time.monotonic(), 0

    def count(self, size: int) -> None:
        self._bytes += size

    def wait(self) -> float:
        now = time.monotonic()
        if self._until is not None:
            if now >= self._until:
                raise TimeoutError(f"no whole answer within {self._patience.exchange_s:g} s")
            return min(self._patience.idle_s, self._until - now)
        if now - self._since >= self._patience.pace_s:
            if self._bytes < self._patience.pace_bytes:
                raise TimeoutError(f"{self._bytes} bytes in {now - self._since:.0f} s")
            self._since, self._bytes = now, 0
        return min(self._patience.idle_s, self._patience.pace_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What http.client takes for a socket: all it does with one is to send, and to make a file for reading."""

    socket: socket.socket
    clock: Clock
    proxy: Proxy | None

    def sendall(self, data: bytes) -> None:
        self.socket.settimeout(self.clock.idle_s)
        self.socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reading(self.socket, self.clock), CHUNK_BYTES)

    def close(self) -> None:
        """http.client closes it before the body is read; the transport does it after."""


class _Reading(io.RawIOBase):
    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        self._connection.settimeout(self._clock.wait())
        return self._connection.recv_into(buffer)  # type: ignore[arg-type]


class Sending(io.RawIOBase):
    """A part of a file as http.client takes a body: read until nothing comes."""

    def __init__(self, stream: IO[bytes], part: FilePart, on_sent: Callable[[int], None]) -> None:
        self._stream = stream
        self._left = part.length
        self._on_sent = on_sent
        stream.seek(part.offset)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(min(self._left, CHUNK_BYTES if size < 0 else size))
        self._left -= len(piece)
        self._on_sent(len(piece))
        return piece
