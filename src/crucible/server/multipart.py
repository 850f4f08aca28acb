"""Bodies of several parts (multipart/form-data), each part whole in memory and bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from crucible.errors import MalformedBody
from crucible.values import dataclass

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_MOST_PARTS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    filename: str
    data: bytes


async def read_parts(request: Request, *, most_bytes: int) -> AsyncIterator[Part]:
    """Each part as soon as it is whole. Raises MalformedBody, and RequestTooLarge for all of them together."""
    request.state.most_bytes = most_bytes
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise MalformedBody("The body is not multipart/form-data with a boundary")
    reading = _Reading()
    count = 0
    try:
        parser = MultipartParser(boundary, reading.callbacks())
        async for data in request.stream():
            parser.write(data)
            while reading.whole:
                count += 1
                if count > _MOST_PARTS:
                    raise MalformedBody(f"The body has more than {_MOST_PARTS} parts")
                yield reading.whole.pop(0)
        parser.finalize()
    except FormParserError as error:
        raise MalformedBody(f"The body's parts cannot be read: {error}") from None
    if not reading.is_ended:
        raise MalformedBody("The body ends in the middle of a part")


class _Reading:
    """The parts as the parser tells of them; it bounds their heads itself."""

    def __init__(self) -> None:
        self.whole: list[Part] = []
        self.is_ended = False
        self._field = bytearray()
        self._value = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._data = bytearray()

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_part_data": lambda data, start, end: self._data.extend(data[start:end]),
            "on_part_end": self._end,
            "on_end": self._end_all,
        }

    def _begin(self) -> None:
        self._headers.clear()
        self._data = bytearray()

    def _end_header(self) -> None:
        self._headers[bytes(self._field).lower()] = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def _end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name, filename = (
            options.get(key, b"").decode(errors="replace") for key in (b"name", b"filename")
        )
        self.whole.append(Part(name=name, filename=filename, data=bytes(self._data)))

    def _end_all(self) -> None:
        self.is_ended = True
