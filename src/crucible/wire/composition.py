"""The page before several images in one root: which there are, where each lies, how its commands are run.

PROTOCOL.md has it beside the messages, because the guest reads it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from crucible.wire.values import BYTES, PAIR, TEXT, U64, Reader, Writer, group, list_of

MAGIC: Final = b"crucible:many:01"
BODY_AT: Final = 4096
ALIGNMENT: Final = 4096
MOST_PARTS: Final = 16


class Part(NamedTuple):
    """The first has no name. `offset` and `length` are multiples of ALIGNMENT."""

    name: str
    offset: int
    length: int
    user: str
    workdir: bytes
    env: Sequence[tuple[bytes, bytes]]


_PARTS: Final = list_of(group(Part, TEXT, U64, U64, TEXT, BYTES, list_of(PAIR)))


def encode_composition(parts: Sequence[Part]) -> bytes:
    """Raises Refused when they say more than one page and a few can hold."""
    writer = Writer()
    _PARTS.write(writer, tuple(parts))
    return writer.body()


def decode_composition(body: bytes) -> tuple[Part, ...]:
    reader = Reader(body)
    parts: tuple[Part, ...] = tuple(_PARTS.read(reader))
    reader.end()
    return parts


def header(parts: Sequence[Part]) -> bytes:
    """Everything before the first image."""
    body = encode_composition(parts)
    start = MAGIC + len(body).to_bytes(4, "little")
    whole = start.ljust(BODY_AT, b"\0") + body
    return whole + bytes(-len(whole) % ALIGNMENT)
