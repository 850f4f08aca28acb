"""A body with one file in it (multipart/form-data), read as it comes: its name first, then its bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from crucible.errors import MalformedBody

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_SLACK_BYTES = 1 << 16


class FileBody:
    """`open` it, then read its `name` and its `pieces`. Raises MalformedBody for anything but one file."""

    def __init__(self, request: Request, *, most_bytes: int) -> None:
        request.state.most_bytes = most_bytes + _SLACK_BYTES
        kind, options = parse_options_header(request.headers.get("content-type", ""))
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise MalformedBody("The body is not multipart/form-data with a boundary")
        self._stream = request.stream()
        self._reading = _Reading()
        try:
            self._parser = MultipartParser(boundary, self._reading.callbacks())
        except FormParserError as error:
            raise _malformed(error) from None

    async def open(self) -> str:
        """The name that the file came with."""
        while not self._reading.has_head:
            if not await self._read():
                raise MalformedBody("The body has no file in it")
        if self._reading.filename is None:
            raise MalformedBody("The body's part is no file")
        return self._reading.filename

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            if data := self._reading.take():
                yield data
            if not await self._read():
                break
        if data := self._reading.take():
            yield data
        if not self._reading.is_ended:
            raise MalformedBody("The body ends in the middle of its file")

    async def _read(self) -> bool:
        """False at the end."""
        data = await anext(self._stream, None)
        if data is None:
            return False
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _malformed(error) from None
        if self._reading.parts > 1:
            raise MalformedBody("The body has more than one part")
        return True


class _Reading:
    """The one part, as the parser tells of it; it bounds its head itself."""

    def __init__(self) -> None:
        self.parts = 0
        self.has_head = False
        self.is_ended = False
        self.filename: str | None = None
        self._field = bytearray()
        self._value = bytearray()
        self._data = bytearray()

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_head,
            "on_part_data": lambda data, start, end: self._data.extend(data[start:end]),
            "on_end": self._end,
        }

    def take(self) -> bytes:
        data, self._data = bytes(self._data), bytearray()
        return data

    def _begin(self) -> None:
        self.parts += 1

    def _end_header(self) -> None:
        if bytes(self._field).lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._value))
            found = options.get(b"filename")
            self.filename = None if found is None else found.decode(errors="replace")
        self._field.clear()
        self._value.clear()

    def _end_head(self) -> None:
        self.has_head = True

    def _end(self) -> None:
        self.is_ended = True


def _malformed(error: FormParserError) -> MalformedBody:
    return MalformedBody(f"The body cannot be read: {error}")
