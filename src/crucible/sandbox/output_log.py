"""What the commands of a sandbox said, kept on the host in two files of bounded size.

Every piece carries its command and its offset, so that after a crash of the holder the log itself
tells where each command's output goes on.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crucible.sandbox.session import Channel

FILE_NAME = "output.log"
OLD_NAME = "output.log.1"
MOST_BYTES = 4 << 20

_HEADER = struct.Struct(">IBQI")
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Output of one command; on channel INPUT it is the command's own description, in JSON."""

    stream: int
    channel: Channel
    offset: int
    data: bytes


class OutputLog:
    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._old = directory / OLD_NAME
        self._size = 0
        self._file: int | None = None

    def append(self, piece: Piece) -> None:
        """Best effort on a full host disk: a command's output is never lost to its reader for it."""
        header = _HEADER.pack(piece.stream, piece.channel, piece.offset, len(piece.data))
        with contextlib.suppress(OSError):
            os.write(self._open(), header + piece.data)
            self._size += len(header) + len(piece.data)
            if self._size > MOST_BYTES:
                self.close()
                self._path.replace(self._old)

    def pieces(self) -> Iterator[Piece]:
        for path in (self._old, self._path):
            with contextlib.suppress(FileNotFoundError):
                yield from _read(path)

    def positions(self, stream: int) -> tuple[int, int]:
        """How much of a command's output and errors has been kept so far."""
        ends = {Channel.OUTPUT: 0, Channel.ERRORS: 0}
        for piece in self.pieces():
            if piece.stream == stream and piece.channel in ends:
                ends[piece.channel] = max(ends[piece.channel], piece.offset + len(piece.data))
        return ends[Channel.OUTPUT], ends[Channel.ERRORS]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
            self._size = os.fstat(self._file).st_size
        return self._file


def _read(path: Path) -> Iterator[Piece]:
    """Stops at the first piece that was cut short: its writer died there."""
    with path.open("rb") as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            stream, channel, offset, length = _HEADER.unpack(header)
            data = file.read(length) if length <= _LARGEST else b""
            if channel > Channel.ERRORS or len(data) != length:
                return
            yield Piece(stream=stream, channel=Channel(channel), offset=offset, data=data)
