"""The first flight of a TLS client, read for the server name it carries and for nothing else.

It walks the records of the client's side. A client may say hello twice (after a HelloRetryRequest), so the walk
goes on behind the first one; it ends where handshake records can no longer be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crucible.network.names import normal_name
from crucible.network.violation import Malformed

MAX_HELLO: Final = 1 << 16
MAX_RECORD: Final = (1 << 14) + 2048

_CHANGE_CIPHER: Final = 20
_ALERT: Final = 21
_HANDSHAKE: Final = 22
_APPLICATION: Final = 23
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_ALPN: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """`server_name` is normal, or "" when the client named none."""

    server_name: str
    protocols: tuple[str, ...] = ()


class HelloReader:
    """Fed with what the client sends. Each hello comes out once, as soon as it is whole."""

    def __init__(self) -> None:
        self._record = bytearray()
        self._message = bytearray()
        self._skip = 0
        self._has_met = False
        self.is_over = False

    @property
    def is_waiting(self) -> bool:
        """Whether the first hello is still incomplete."""
        return not self._has_met and not self.is_over

    def feed(self, data: bytes) -> list[Hello]:
        """Raises Malformed."""
        found: list[Hello] = []
        view = memoryview(data)
        while view and not self.is_over:
            if self._skip:
                taken = min(self._skip, len(view))
                self._skip -= taken
                view = view[taken:]
                continue
            view = self._take(view, found)
        return found

    def _take(self, view: memoryview, found: list[Hello]) -> memoryview:
        header = self._record
        if len(header) < 5:
            taken = min(5 - len(header), len(view))
            header += view[:taken]
            if len(header) == 5:
                self._begin()
            return view[taken:]
        length = int.from_bytes(header[3:5], "big")
        taken = min(5 + length - len(header), len(view))
        header += view[:taken]
        if len(header) == 5 + length:
            hello = self._end(bytes(header[5:]))
            self._record = bytearray()
            if hello is not None:
                found.append(hello)
        return view[taken:]

    def _begin(self) -> None:
        """A record's header is there: it is collected if it could be a hello, and passed over otherwise."""
        kind, major, length = self._record[0], self._record[1], self._record[3:5]
        size = int.from_bytes(length, "big")
        if major != 3 or not 0 < size <= MAX_RECORD:
            raise Malformed("a TLS record has an impossible header")
        if kind == _HANDSHAKE:
            return
        if not self._has_met or self._message or kind not in (_CHANGE_CIPHER, _ALERT, _APPLICATION):
            raise Malformed("a TLS record comes out of turn")
        self._skip = size
        self._record = bytearray()

    def _end(self, payload: bytes) -> Hello | None:
        if self._has_met and not self._message and not _could_be_hello(payload):
            self.is_over = True
            return None
        self._message += payload
        if len(self._message) > MAX_HELLO:
            raise Malformed(f"a TLS hello is larger than {MAX_HELLO} bytes")
        if self._message[0] != _CLIENT_HELLO:
            raise Malformed("a TLS stream does not begin with a hello")
        if len(self._message) < 4:
            return None
        size = int.from_bytes(self._message[1:4], "big")
        if size > MAX_HELLO:
            raise Malformed(f"a TLS hello is larger than {MAX_HELLO} bytes")
        if len(self._message) < 4 + size:
            return None
        if len(self._message) > 4 + size:
            raise Malformed("something follows a TLS hello in its record")
        hello = parse_hello(bytes(self._message[4:]))
        self._message = bytearray()
        self._has_met = True
        return hello


def parse_hello(body: bytes) -> Hello:
    """The body of a ClientHello message. Raises Malformed."""
    reader = _Reader(body)
    reader.take(2 + 32)
    reader.block(1, most=32)
    reader.block(2)
    reader.block(1)
    if reader.is_empty:
        return Hello(server_name="")
    extensions = _Reader(reader.block(2))
    reader.end()
    seen: dict[int, bytes] = {}
    while not extensions.is_empty:
        kind = extensions.number(2)
        value = extensions.block(2)
        if kind in seen:
            raise Malformed("a TLS hello carries the same extension twice")
        seen[kind] = value
    name = _server_name(seen[_SERVER_NAME]) if _SERVER_NAME in seen else ""
    return Hello(server_name=name, protocols=_protocols(seen.get(_ALPN, b"")))


def _server_name(extension: bytes) -> str:
    outer = _Reader(extension)
    entries = _Reader(outer.block(2))
    outer.end()
    kind = entries.number(1)
    name = entries.block(2)
    entries.end()
    if kind != 0:
        raise Malformed("a TLS hello names a server by something else than a host name")
    try:
        normal = normal_name(name.decode("ascii"))
    except UnicodeDecodeError:
        normal = None
    if normal is None:
        raise Malformed("a TLS hello names a server that is no host name")
    return normal


def _protocols(extension: bytes) -> tuple[str, ...]:
    if not extension:
        return ()
    outer = _Reader(extension)
    entries = _Reader(outer.block(2))
    outer.end()
    names = []
    while not entries.is_empty:
        names.append(entries.block(1).decode("latin-1"))
    return tuple(names)


def _could_be_hello(payload: bytes) -> bool:
    """A handshake record behind the first hello is a second one or, encrypted or not, something of no interest."""
    if payload[0] != _CLIENT_HELLO or len(payload) < 6:
        return payload[0] == _CLIENT_HELLO
    size = int.from_bytes(payload[1:4], "big")
    return len(payload) - 4 <= size <= MAX_HELLO and payload[4] == 3 and payload[5] <= 3


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def is_empty(self) -> bool:
        return self._at == len(self._body)

    def take(self, size: int) -> bytes:
        piece = self._body[self._at : self._at + size]
        if len(piece) != size:
            raise Malformed("a TLS hello ends too early")
        self._at += size
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, width: int, most: int = MAX_HELLO) -> bytes:
        size = self.number(width)
        if size > most:
            raise Malformed("a TLS hello has a field that is too long")
        return self.take(size)

    def end(self) -> None:
        if not self.is_empty:
            raise Malformed("a TLS hello has bytes too many")
