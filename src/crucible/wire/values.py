"""The values that bodies are made of: written without surprises, read without trust."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from crucible.errors import ProtocolBroken, Refused
from crucible.wire.frames import MAX_PAYLOAD

MAX_ITEMS: Final = 4_096
_U8: Final = struct.Struct("<B")
_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


class Writer:
    """Collects a body. A value that has no place in one is the caller's fault: Refused."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def u8(self, value: int) -> None:
        self._number(_U8, value)

    def u16(self, value: int) -> None:
        self._number(_U16, value)

    def u32(self, value: int) -> None:
        self._number(_U32, value)

    def u64(self, value: int) -> None:
        self._number(_U64, value)

    def raw(self, value: bytes) -> None:
        self._parts.append(value)

    def blob(self, value: bytes) -> None:
        self.u32(len(value))
        self._parts.append(value)

    def text(self, value: str) -> None:
        try:
            encoded = value.encode()
        except UnicodeEncodeError as error:
            raise Refused(f"{value!r} cannot be sent to a sandbox: it is not UTF-8") from error
        self.blob(encoded)

    def count(self, value: int) -> None:
        if value > MAX_ITEMS:
            raise Refused(f"A request has a list of {value} items; the most is {MAX_ITEMS}")
        self.u32(value)

    def body(self) -> bytes:
        body = b"".join(self._parts)
        if len(body) > MAX_PAYLOAD:
            raise Refused(f"A request takes {len(body)} bytes; the most is {MAX_PAYLOAD}")
        return body

    def _number(self, form: struct.Struct, value: int) -> None:
        try:
            self._parts.append(form.pack(value))
        except struct.error as error:
            raise Refused(
                f"{value!r} cannot be sent to a sandbox: it does not fit {form.size * 8} bits"
            ) from error


class Reader:
    """Takes a body apart. Every length is held against what is left before anything is copied."""

    __slots__ = ("_at", "_body")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def u8(self) -> int:
        return self._number(_U8)

    def u16(self) -> int:
        return self._number(_U16)

    def u32(self) -> int:
        return self._number(_U32)

    def u64(self) -> int:
        return self._number(_U64)

    def raw(self, length: int) -> bytes:
        if length > len(self._body) - self._at:
            raise ProtocolBroken("a body is shorter than what it says it holds")
        self._at += length
        return self._body[self._at - length : self._at]

    def blob(self) -> bytes:
        return self.raw(self.u32())

    def text(self) -> str:
        try:
            return self.blob().decode()
        except UnicodeDecodeError:
            raise ProtocolBroken("a text is not UTF-8") from None

    def count(self) -> int:
        count = self.u32()
        if count > MAX_ITEMS:
            raise ProtocolBroken(f"a list has {count} items; the most is {MAX_ITEMS}")
        return count

    def end(self) -> None:
        left = len(self._body) - self._at
        if left:
            raise ProtocolBroken(f"a body has {left} bytes more than its fields")

    def _number(self, form: struct.Struct) -> int:
        if form.size > len(self._body) - self._at:
            raise ProtocolBroken("a body is shorter than what it says it holds")
        self._at += form.size
        number: int = form.unpack_from(self._body, self._at - form.size)[0]
        return number


class Field(NamedTuple):
    """How one value of a body is written and read."""

    write: Callable[[Writer, Any], None]
    read: Callable[[Reader], Any]


U8: Final = Field(Writer.u8, Reader.u8)
U16: Final = Field(Writer.u16, Reader.u16)
U32: Final = Field(Writer.u32, Reader.u32)
U64: Final = Field(Writer.u64, Reader.u64)
BYTES: Final = Field(Writer.blob, Reader.blob)
TEXT: Final = Field(Writer.text, Reader.text)


def up_to(most: int, noun: str) -> Field:
    """A u8 of a closed set."""

    def read(reader: Reader) -> int:
        number = reader.u8()
        if number > most:
            raise ProtocolBroken(f"a body has {noun} {number}, which does not exist")
        return number

    return Field(Writer.u8, read)


def _read_flag(reader: Reader) -> bool:
    number = reader.u8()
    if number > 1:
        raise ProtocolBroken(f"a body has {number} where only 0 and 1 have a meaning")
    return number == 1


FLAG: Final = Field(Writer.u8, _read_flag)


def list_of(item: Field) -> Field:
    def write(writer: Writer, values: Iterable[Any]) -> None:
        items = tuple(values)
        writer.count(len(items))
        for value in items:
            item.write(writer, value)

    def read(reader: Reader) -> tuple[Any, ...]:
        return tuple([item.read(reader) for _ in range(reader.count())])

    return Field(write, read)


def group(make: Callable[..., Any], *fields: Field) -> Field:
    """Fields one after the other; `make` gets them in order. Written from anything iterable."""

    def write(writer: Writer, values: Iterable[Any]) -> None:
        for field, value in zip(fields, values, strict=True):
            field.write(writer, value)

    def read(reader: Reader) -> Any:
        return make(*[field.read(reader) for field in fields])

    return Field(write, read)


def _two(first: bytes, second: bytes) -> tuple[bytes, bytes]:
    return first, second


PAIR: Final = group(_two, BYTES, BYTES)
