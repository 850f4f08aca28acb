"""Writes the header of one tar member: plain ustar where it fits, a PAX header before it where not."""

from __future__ import annotations

import struct
from dataclasses import dataclass

BLOCK = 512
END_OF_ARCHIVE = bytes(2 * BLOCK)
_USTAR = struct.Struct("100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x")
_MAX_OCTAL = 8**11 - 1
_OWNER = b"0000000\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """`type` is tar's own letter: 0 file, 1 hard link, 2 symbolic link, 5 directory."""

    name: bytes
    type: bytes
    mode: int
    mtime: int = 0
    size: int = 0
    target: bytes = b""


def encode_header(header: Header) -> bytes:
    """Names are written as the bytes they are, also in a PAX header, where readers expect UTF-8 but take any."""
    long: dict[bytes, bytes] = {}
    name, prefix = _split(header.name)
    if not name:
        name, prefix, long[b"path"] = header.name[:100], b"", header.name
    if len(header.target) > 100:
        long[b"linkpath"] = header.target
    if header.size > _MAX_OCTAL:
        long[b"size"] = b"%d" % header.size
    block = _block(header, name, prefix)
    return _pax(long) + block if long else block


def _split(name: bytes) -> tuple[bytes, bytes]:
    """ustar's two fields for a name, or nothing when it does not fit them."""
    if len(name) <= 100:
        return name, b""
    slash = name.find(b"/", len(name) - 101, 156)
    if slash <= 0 or slash == len(name) - 1:
        return b"", b""
    return name[slash + 1 :], name[:slash]


def _pax(records: dict[bytes, bytes]) -> bytes:
    data = b"".join(_record(key, value) for key, value in records.items())
    header = Header(name=b"././@PaxHeader", type=b"x", mode=0o644, size=len(data))
    return _block(header, header.name, b"") + data + bytes(-len(data) % BLOCK)


def _record(key: bytes, value: bytes) -> bytes:
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    # The length counts its own digits, which may be one more than those of the rest.
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def _block(header: Header, name: bytes, prefix: bytes) -> bytes:
    fields = [
        name,
        b"%07o\0" % (header.mode & 0o7777),
        _OWNER,
        _OWNER,
        b"%011o\0" % (header.size if header.size <= _MAX_OCTAL else 0),
        b"%011o\0" % max(0, min(header.mtime, _MAX_OCTAL)),
        b" " * 8,
        header.type,
        header.target[:100],
        b"ustar\00000",
        b"",
        b"",
        _OWNER,
        _OWNER,
        prefix,
    ]
    fields[6] = b"%06o\0 " % sum(_USTAR.pack(*fields))
    return _USTAR.pack(*fields)
