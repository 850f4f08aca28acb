"""A frame: twelve bytes of header and a payload. How to write one, which headers are lawful."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from crucible.errors import ProtocolBroken

MARKER: Final = 0xC5
HEADER: Final = struct.Struct("<BBBBII")
HEADER_BYTES: Final = HEADER.size
MAX_PAYLOAD: Final = 65_536
MAX_STREAM: Final = 2**31 - 1
MAX_CHANNEL: Final = 2
WINDOW_BYTES: Final = 262_144
TAKE_WINDOW_BYTES: Final = 32_768
MAGIC: Final = b"crucible:sync:01"
NONCE_BYTES: Final = 16
SYNC_BYTES: Final = len(MAGIC) + NONCE_BYTES + 4
HELLO_LEAST_BYTES: Final = SYNC_BYTES + 4 + 1 + 4


class Kind(IntEnum):
    SYNC = 1
    HELLO = 2
    OPEN = 3
    DATA = 4
    END = 5
    WINDOW = 6
    NOTE = 7
    RESULT = 8
    FAIL = 9
    FORGET = 10
    ATTACH = 11
    FETCH = 12


class Frame(NamedTuple):
    kind: Kind
    channel: int
    stream: int
    payload: bytes


class Rule(NamedTuple):
    """What the header of one kind may say."""

    kind: Kind
    has_stream: bool
    max_channel: int
    least: int
    most: int


RULES: Final = {
    int(rule.kind): rule
    for rule in (
        Rule(Kind.SYNC, False, 0, SYNC_BYTES, SYNC_BYTES),
        Rule(Kind.HELLO, False, 0, HELLO_LEAST_BYTES, MAX_PAYLOAD),
        Rule(Kind.OPEN, True, 0, 1, MAX_PAYLOAD),
        Rule(Kind.DATA, True, MAX_CHANNEL, 1, MAX_PAYLOAD),
        Rule(Kind.END, True, MAX_CHANNEL, 0, 0),
        Rule(Kind.WINDOW, True, MAX_CHANNEL, 8, 8),
        Rule(Kind.NOTE, True, 0, 1, MAX_PAYLOAD),
        Rule(Kind.RESULT, True, 0, 0, MAX_PAYLOAD),
        Rule(Kind.FAIL, True, 0, 0, MAX_PAYLOAD),
        Rule(Kind.FORGET, True, 0, 0, 0),
        Rule(Kind.ATTACH, True, 0, 16, 16),
        Rule(Kind.FETCH, True, 0, 12, 12),
    )
}


def encode(kind: Kind, stream: int, payload: bytes | memoryview = b"", channel: int = 0) -> bytes:
    """The bytes of one frame. The caller keeps the caps; `check_header` is for what others send."""
    return HEADER.pack(MARKER, kind, channel, 0, stream, len(payload)) + payload


def check_header(marker: int, kind: int, channel: int, zero: int, stream: int, length: int) -> Kind:
    """The frame's kind, or ProtocolBroken when no honest peer writes such a header."""
    if marker != MARKER:
        raise ProtocolBroken(f"a frame begins with 0x{marker:02x}, not 0x{MARKER:02x}")
    rule = RULES.get(kind)
    if rule is None:
        raise ProtocolBroken(f"a frame has kind {kind}, which does not exist")
    if zero:
        raise ProtocolBroken(f"the zero byte of a frame is {zero}")
    if channel > rule.max_channel:
        raise ProtocolBroken(f"a {rule.kind.name} frame names channel {channel}")
    is_lawful = 0 < stream <= MAX_STREAM if rule.has_stream else stream == 0
    if not is_lawful:
        raise ProtocolBroken(f"a {rule.kind.name} frame names stream {stream}")
    if not rule.least <= length <= rule.most:
        raise ProtocolBroken(f"a {rule.kind.name} frame has a payload of {length} bytes")
    return rule.kind
