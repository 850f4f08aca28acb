"""HTTP/1.1 read in whole pieces from a stream: heads, and bodies by how they are framed. Strict, and capped."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from crucible.network.http1 import MAX_CHUNK_LINE, MAX_FIELDS, MAX_HEAD, Field
from crucible.network.outlet import ByteStream
from crucible.network.violation import Malformed

_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_NO_BODY: Final = (b"204", b"304")


class Cut(OSError):
    """A stream ended in the middle of something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The head of an answer. `length` is -1 for chunks, -2 for all until the end of the connection."""

    line: bytes
    status: int
    fields: tuple[Field, ...]
    length: int
    closes: bool

    def values(self, name: bytes) -> list[bytes]:
        return [value for field, value in self.fields if field.lower() == name]


CHUNKED: Final = -1
UNTIL_END: Final = -2


class Wire:
    """One side of a connection. A read that was begun is kept: nothing is lost when nobody waits for it any more."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._reading: asyncio.Task[bytes] | None = None
        self.is_ended = False

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def has_more(self) -> bool:
        return bool(self._buffer)

    async def fill(self) -> bool:
        """Waits for more; False at the end of the stream."""
        if self.is_ended:
            return False
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._stream.read())
            self._reading.add_done_callback(_look_at)
        data = await asyncio.shield(self._reading)
        self._reading = None
        self._buffer += data
        self.is_ended = not data
        return bool(data)

    async def head(self) -> bytes | None:
        """With its empty line; None if the stream ends before one begins. Raises Malformed and Cut."""
        while True:
            while self._buffer.startswith(b"\r\n"):
                del self._buffer[:2]
            end = self._buffer.find(b"\r\n\r\n")
            if (end if end >= 0 else len(self._buffer)) > MAX_HEAD:
                raise Malformed(f"an HTTP head is larger than {MAX_HEAD} bytes")
            if end >= 0:
                head = bytes(self._buffer[: end + 4])
                del self._buffer[: end + 4]
                if head.count(b"\n") != head.count(b"\r\n"):
                    raise Malformed("a line of an HTTP head does not end as it must")
                return head
            if not await self.fill():
                if self._buffer:
                    raise Cut("a head is cut off")
                return None

    async def answer(self) -> Answer:
        """The next one that is final. Raises Malformed, and Cut if there is none."""
        for _ in range(16):
            head = await self.head()
            if head is None:
                raise Cut("the server ended the connection without an answer")
            if not head[9:].startswith(b"1"):
                return _answer(head)
        raise Malformed("an answer never comes to its end")

    async def body(self, length: int) -> AsyncIterator[bytes]:
        """Piece by piece. Raises Malformed and Cut."""
        if length == CHUNKED:
            while size := await self._chunk_line():
                async for piece in self._exactly(size):
                    yield piece
                if await self._line() != b"":
                    raise Malformed("a chunk of an HTTP body is longer than it says")
            await self._trailers()
        elif length == UNTIL_END:
            while self._buffer or await self.fill():
                yield self._take(len(self._buffer))
        else:
            async for piece in self._exactly(length):
                yield piece

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            if not self._buffer and not await self.fill():
                raise Cut("a body is cut off")
            piece = self._take(size)
            size -= len(piece)
            yield piece

    async def _chunk_line(self) -> int:
        match = _CHUNK.fullmatch(await self._line())
        if match is None:
            raise Malformed("a chunk of an HTTP body has no proper length")
        return int(match[1], 16)

    async def _trailers(self) -> None:
        """They are read, and dropped."""
        for _ in range(MAX_FIELDS):
            if not await self._line(MAX_HEAD):
                return
        raise Malformed("an HTTP body has too many trailers")

    async def _line(self, most: int = MAX_CHUNK_LINE) -> bytes:
        while (end := self._buffer.find(b"\n", 0, most)) < 0:
            if len(self._buffer) >= most:
                raise Malformed("a line of an HTTP body is too long")
            if not await self.fill():
                raise Cut("a body is cut off")
        line = self._take(end + 1)
        if not line.endswith(b"\r\n"):
            raise Malformed("a line of an HTTP body does not end as it must")
        return line[:-2]

    def _take(self, most: int) -> bytes:
        piece = bytes(self._buffer[:most])
        del self._buffer[: len(piece)]
        return piece


def _look_at(reading: asyncio.Task[bytes]) -> None:
    """A reset that comes while nobody waits is no mistake of ours."""
    if not reading.cancelled():
        reading.exception()


def _answer(head: bytes) -> Answer:
    line, *rest = head[:-4].split(b"\r\n")
    match = _STATUS.fullmatch(line)
    if match is None:
        raise Malformed("the first line of an HTTP answer is not well formed")
    fields = tuple(_field(text) for text in rest)
    if len(fields) > MAX_FIELDS:
        raise Malformed(f"an HTTP head has more than {MAX_FIELDS} fields")

    def values(name: bytes) -> list[bytes]:
        return [value.lower() for field, value in fields if field.lower() == name]

    codings, lengths = values(b"transfer-encoding"), values(b"content-length")
    if (codings and (lengths or codings != [b"chunked"])) or len(lengths) > 1:
        raise Malformed("an HTTP answer does not say clearly where it ends")
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise Malformed("an HTTP answer does not say clearly where it ends")
    length = CHUNKED if codings else int(lengths[0]) if lengths else UNTIL_END
    if match[2] in _NO_BODY:
        length = 0
    options = {option.strip() for value in values(b"connection") for option in value.split(b",")}
    closes = length == UNTIL_END or b"close" in options or match[1] == b"0"
    return Answer(line=line, status=int(match[2]), fields=fields, length=length, closes=closes)


def _field(line: bytes) -> Field:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise Malformed("a field of an HTTP head is not well formed")
    return name, value.strip(b" \t")
