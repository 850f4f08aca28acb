"""What is said while a stream goes on: notes of both sides, windows, taking a stream up again."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from crucible.errors import ProtocolBroken
from crucible.wire.values import U8, U16, U32, U64, Field, Reader, Writer, group


class Started(NamedTuple):
    pid: int


class Attached(NamedTuple):
    output: int
    errors: int
    input: int


class Connected(NamedTuple):
    """The program in the guest took the connection."""


class Signal(NamedTuple):
    number: int


class Resize(NamedTuple):
    rows: int
    columns: int


class Listening(NamedTuple):
    """The guest's network is on."""


class Watching(NamedTuple):
    """Changes from now on are told."""


Note = Started | Attached | Connected | Signal | Resize | Listening | Watching


class Attach(NamedTuple):
    output: int
    errors: int


class Window(NamedTuple):
    limit: int


class Place(NamedTuple):
    """Where the input of a FETCH lies in the exchange."""

    offset: int
    length: int


_NOTES: Final[dict[int, tuple[type[Any], Field]]] = {
    1: (Started, group(Started, U32)),
    2: (Attached, group(Attached, U64, U64, U64)),
    3: (Connected, group(Connected)),
    4: (Signal, group(Signal, U8)),
    5: (Resize, group(Resize, U16, U16)),
    6: (Listening, group(Listening)),
    7: (Watching, group(Watching)),
}
_NUMBERS: Final = {kind: number for number, (kind, _) in _NOTES.items()}
_ATTACH: Final = group(Attach, U64, U64)
_WINDOW: Final = group(Window, U64)
_PLACE: Final = group(Place, U64, U32)


def encode_note(note: Note) -> bytes:
    number = _NUMBERS[type(note)]
    writer = Writer()
    writer.u8(number)
    _NOTES[number][1].write(writer, note)
    return writer.body()


def decode_note(payload: bytes) -> Note:
    reader = Reader(payload)
    number = reader.u8()
    if number not in _NOTES:
        raise ProtocolBroken(f"a NOTE has number {number}, which does not exist")
    note: Note = _NOTES[number][1].read(reader)
    reader.end()
    return note


def encode_attach(attach: Attach) -> bytes:
    writer = Writer()
    _ATTACH.write(writer, attach)
    return writer.body()


def decode_attach(payload: bytes) -> Attach:
    reader = Reader(payload)
    attach: Attach = _ATTACH.read(reader)
    reader.end()
    return attach


def encode_window(limit: int) -> bytes:
    return limit.to_bytes(8, "little")


def decode_window(payload: bytes) -> Window:
    reader = Reader(payload)
    window: Window = _WINDOW.read(reader)
    reader.end()
    return window


def encode_place(place: Place) -> bytes:
    return place.offset.to_bytes(8, "little") + place.length.to_bytes(4, "little")


def decode_place(payload: bytes) -> Place:
    reader = Reader(payload)
    place: Place = _PLACE.read(reader)
    reader.end()
    return place
