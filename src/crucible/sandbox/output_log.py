"""What the commands of a sandbox said, kept on the host in two files of bounded size.

Every piece carries its command and its offset, so that after a crash of the holder the log itself
tells where each command's output goes on. Commands are numbered anew in every machine, so a mark
tells where a new machine began.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crucible.sandbox.session import Channel, Chunk
from crucible.values import dataclass, field

FILE_NAME = "output.log"
OLD_NAME = "output.log.1"
MOST_BYTES = 4 << 20

_HEADER = struct.Struct(">IBQI")
_LARGEST = 1 << 20
_NO_STREAM = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Output of one command; on channel INPUT it is a description of the command, in JSON.

    The description at offset 0 begins the command, others amend it.
    """

    stream: int
    channel: Channel
    offset: int
    data: bytes


class OutputLog:
    """Best effort on a full host disk: a command's output is never lost to its reader for it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._old = directory / OLD_NAME
        self._size = 0
        self._file: int | None = None
        self._is_closed = False

    def mark_machine(self) -> None:
        """From here on the numbers of commands mean others than before."""
        mark = json.dumps({"machine": time.time()}).encode()
        self.append(Piece(stream=_NO_STREAM, channel=Channel.INPUT, offset=0, data=mark))

    def follow(self, stream: int, facts: dict[str, Any]) -> StreamLog:
        """The log of a command that begins."""
        note = json.dumps(facts).encode()
        self.append(Piece(stream=stream, channel=Channel.INPUT, offset=0, data=note))
        return StreamLog(log=self, stream=stream, facts=facts)

    def resume(self, stream: int) -> StreamLog:
        """The log of a command that another process began, where that process left it."""
        found = StreamLog(log=self, stream=stream, facts={})
        for piece in self.pieces():
            if _begins(piece, stream):
                facts = _facts(piece) if piece.stream else {}
                found = StreamLog(log=self, stream=stream, facts=facts)
            elif piece.stream == stream and piece.channel is Channel.INPUT:
                found.facts.update(_facts(piece))
            elif piece.stream == stream:
                found.ends[piece.channel] = piece.offset + len(piece.data)
        return found

    def streams(self) -> list[StreamLog]:
        """The logs of all commands of the machine that ran last, as far as they are kept, in order."""
        found: dict[int, StreamLog] = {}
        for piece in self.pieces():
            if _begins(piece, _NO_STREAM):
                found.clear()
                continue
            if _begins(piece, piece.stream):
                found.pop(piece.stream, None)
            one = found.setdefault(piece.stream, StreamLog(log=self, stream=piece.stream, facts={}))
            if piece.channel is Channel.INPUT:
                one.facts.update(_facts(piece))
            else:
                one.ends[piece.channel] = piece.offset + len(piece.data)
        return list(found.values())

    def append(self, piece: Piece) -> None:
        if self._is_closed:
            return
        data = _HEADER.pack(piece.stream, piece.channel, piece.offset, len(piece.data)) + piece.data
        with contextlib.suppress(OSError):
            file = self._open()
            written = 0
            try:
                written = os.write(file, data)
            finally:
                # A piece that was cut short would hide all that come after it.
                if written != len(data):
                    os.ftruncate(file, self._size)
            self._size += written
            if self._size > MOST_BYTES:
                self._release()
                self._path.replace(self._old)

    def pieces(self) -> Iterator[Piece]:
        for path in (self._old, self._path):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                for piece, _ in _read(file.fileno()):
                    yield piece

    def close(self) -> None:
        """What comes later is not kept: the sandbox is in other hands, or gone."""
        self._is_closed = True
        self._release()

    def _open(self) -> int:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
            self._size = max((end for _, end in _read(self._file)), default=0)
            os.ftruncate(self._file, self._size)
        return self._file

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@dataclass(slots=True, kw_only=True)
class StreamLog:
    """One command's part of the log. Bytes that come again, as after a crash, are kept once."""

    log: OutputLog
    stream: int
    facts: dict[str, Any]
    ends: dict[Channel, int] = field(default_factory=lambda: {Channel.OUTPUT: 0, Channel.ERRORS: 0})

    def amend(self, facts: dict[str, Any]) -> None:
        self.facts.update(facts)
        note = json.dumps(facts).encode()
        self.log.append(Piece(stream=self.stream, channel=Channel.INPUT, offset=1, data=note))

    def keep(self, chunk: Chunk) -> None:
        known = max(0, self.ends[chunk.channel] - chunk.offset)
        if known >= len(chunk.data):
            return
        offset, data = chunk.offset + known, chunk.data[known:]
        self.log.append(Piece(stream=self.stream, channel=chunk.channel, offset=offset, data=data))
        self.ends[chunk.channel] = offset + len(data)

    def since(self, starts: dict[Channel, int]) -> list[Chunk]:
        """What was kept of this command from these offsets on."""
        found: list[Chunk] = []
        for piece in self.log.pieces():
            if _begins(piece, self.stream):
                found = []
            elif piece.stream == self.stream and piece.channel in starts:
                known = max(0, starts[piece.channel] - piece.offset)
                if known < len(piece.data):
                    offset, data = piece.offset + known, piece.data[known:]
                    found.append(Chunk(channel=piece.channel, offset=offset, data=data))
        return found


def _begins(piece: Piece, stream: int) -> bool:
    """Whether all of this number before this piece belongs to a command that was before."""
    is_beginning = piece.channel is Channel.INPUT and piece.offset == 0
    return is_beginning and piece.stream in (_NO_STREAM, stream)


def _facts(note: Piece) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        facts = json.loads(note.data)
        if isinstance(facts, dict):
            return facts
    return {}


def _read(file: int) -> Iterator[tuple[Piece, int]]:
    """Pieces, each with where it ends. Stops at one that was cut short: its writer died there."""
    position = 0
    while len(header := os.pread(file, _HEADER.size, position)) == _HEADER.size:
        stream, channel, offset, length = _HEADER.unpack(header)
        if channel > Channel.ERRORS or length > _LARGEST:
            return
        data = os.pread(file, length, position + _HEADER.size)
        if len(data) != length:
            return
        position += _HEADER.size + length
        yield Piece(stream=stream, channel=Channel(channel), offset=offset, data=data), position
