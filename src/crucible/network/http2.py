"""Requests of HTTP/2 as a client sends them: frames are passed on, heads are decoded and judged.

The decoder follows the client's compression; what the server's settings allow it is the server's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from crucible.network.http1 import split_authority
from crucible.network.violation import Malformed

if TYPE_CHECKING:
    from hpack import Decoder

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_BLOCK: Final = 1 << 16
MAX_TABLE: Final = 1 << 16

_DATA: Final = 0
_HEADERS: Final = 1
_PUSH_PROMISE: Final = 5
_CONTINUATION: Final = 9
_END_STREAM: Final = 0x1
_END_HEADERS: Final = 0x4
_PADDED: Final = 0x8
_PRIORITY: Final = 0x20

Head = tuple[tuple[bytes, bytes], ...]


class FrameReader:
    """Begins behind the preface. `on_head` is asked about the head of every request: its fields and hosts.

    A head is passed on as it came when `on_head` returns None; otherwise what it returns takes its place, encoded
    anew. It must do the one or the other for all, since heads build on those before.
    `on_data` is shown what is in DATA frames and returns what takes its place, as long as it was.
    """

    def __init__(
        self,
        on_head: Callable[[Head, tuple[str, ...]], Head | None],
        on_data: Callable[[int, bytes], bytes] | None = None,
    ) -> None:
        self._on_head = on_head
        self._on_data = on_data
        self._decoder = _decoder()
        self._buffer = bytearray()
        self._raw = bytearray()
        self._block = bytearray()
        self._first = 0
        self._stream = 0
        self._highest = 0
        self._through = 0
        self._through_data = 0
        self.count = 0

    @property
    def is_in_head(self) -> bool:
        return bool(self._stream) or 0 < len(self._buffer) < 9

    def feed(self, data: bytes) -> bytes:
        """Raises Malformed, and whatever `on_head` raises."""
        self._buffer += data
        passed: list[bytes] = []
        while self._buffer and (piece := self._step()) is not None:
            passed.append(piece)
        return b"".join(passed)

    def _step(self) -> bytes | None:
        if self._through:
            return self._pass_through()
        if len(self._buffer) < 9:
            return None
        size = int.from_bytes(self._buffer[:3], "big")
        kind, flags = self._buffer[3], self._buffer[4]
        stream = int.from_bytes(self._buffer[5:9], "big") & 0x7FFFFFFF
        if self._stream and (kind != _CONTINUATION or stream != self._stream):
            raise Malformed("an HTTP/2 head is interrupted")
        if kind in (_HEADERS, _CONTINUATION):
            return self._head_frame(kind, flags, stream, size)
        if kind == _PUSH_PROMISE:
            raise Malformed("an HTTP/2 client promises a push")
        return self._other_frame(kind, flags, size)

    def _other_frame(self, kind: int, flags: int, size: int) -> bytes:
        header = bytes(self._buffer[:9])
        del self._buffer[:9]
        self._through = size
        self._through_data = int.from_bytes(header[5:9], "big") if kind == _DATA else 0
        return header

    def _pass_through(self) -> bytes:
        piece = bytes(self._buffer[: self._through])
        del self._buffer[: len(piece)]
        self._through -= len(piece)
        if self._through_data and self._on_data is not None:
            return self._on_data(self._through_data, piece)
        return piece

    def _head_frame(self, kind: int, flags: int, stream: int, size: int) -> bytes | None:
        if not stream or (kind == _CONTINUATION and not self._stream):
            raise Malformed("an HTTP/2 head comes out of turn")
        if len(self._block) + size > MAX_BLOCK:
            raise Malformed(f"an HTTP/2 head is larger than {MAX_BLOCK} bytes")
        if len(self._buffer) < 9 + size:
            return None
        frame = bytes(self._buffer[: 9 + size])
        del self._buffer[: 9 + size]
        payload = frame[9:]
        if kind == _HEADERS:
            self._first = flags
            payload = _unpadded(payload, flags)
        self._stream = stream
        self._raw += frame
        self._block += payload
        if not flags & _END_HEADERS:
            return b""
        return self._whole_head()

    def _whole_head(self) -> bytes:
        raw, block, stream = bytes(self._raw), bytes(self._block), self._stream
        self._raw.clear()
        self._block.clear()
        self._stream = 0
        head = _decode(self._decoder, block)
        if stream <= self._highest:
            # Trailers: they name no host, and come only for a request that was judged.
            if any(name.startswith(b":") or name == b"host" for name, _ in head):
                raise Malformed("trailers of an HTTP/2 request name a host")
            new = self._on_head(head, ())
        else:
            self._highest = stream
            self.count += 1
            new = self._on_head(head, _hosts(head))
        if new is None:
            return raw
        return _frames(stream, new, ends=bool(self._first & _END_STREAM))


def _decoder() -> Decoder:
    from hpack import Decoder

    decoder = Decoder(max_header_list_size=MAX_BLOCK)
    decoder.max_allowed_table_size = MAX_TABLE
    return decoder


def _decode(decoder: Decoder, block: bytes) -> Head:
    from hpack import HPACKError

    try:
        return tuple((bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True))
    except HPACKError:
        raise Malformed("an HTTP/2 head cannot be decoded") from None


def _unpadded(payload: bytes, flags: int) -> bytes:
    start = 0
    padding = 0
    if flags & _PADDED:
        if not payload:
            raise Malformed("an HTTP/2 frame is too short")
        padding, start = payload[0], 1
    if flags & _PRIORITY:
        start += 5
    if start + padding > len(payload):
        raise Malformed("an HTTP/2 frame has more padding than it has bytes")
    return payload[start : len(payload) - padding]


def _hosts(head: Head) -> tuple[str, ...]:
    named: dict[bytes, bytes] = {}
    is_regular = False
    for name, value in head:
        if name.lower() != name or b"\0" in value or b"\n" in value or b"\r" in value:
            raise Malformed("a field of an HTTP/2 head is not well formed")
        is_pseudo = name.startswith(b":")
        if is_pseudo and is_regular:
            raise Malformed("a field of an HTTP/2 head comes out of turn")
        is_regular = is_regular or not is_pseudo
        if name in (b":method", b":path", b":scheme", b":authority", b":protocol", b"host"):
            if name in named:
                raise Malformed("an HTTP/2 request names its host twice")
            named[name] = value
        elif is_pseudo or name in (b"transfer-encoding", b"connection", b"upgrade"):
            raise Malformed("an HTTP/2 head has a field that has no place there")
    if named.get(b":method", b"") == b"CONNECT" and b":protocol" not in named:
        raise Malformed("an HTTP/2 client asks for a tunnel")
    written = [named[name] for name in (b":authority", b"host") if named.get(name)]
    return tuple(split_authority(value)[0] for value in written)


def _frames(stream: int, head: Head, *, ends: bool) -> bytes:
    """A head encoded without any table, which needs no agreement with the server."""
    from hpack import Encoder

    encoder = Encoder()
    encoder.header_table_size = 0
    block = encoder.encode(list(head), huffman=False)
    pieces = [block[at : at + 16384] for at in range(0, len(block), 16384)] or [b""]
    frames = []
    for number, piece in enumerate(pieces):
        kind = _CONTINUATION if number else _HEADERS
        flags = (_END_STREAM if ends and not number else 0) | (
            _END_HEADERS if number == len(pieces) - 1 else 0
        )
        frames.append(
            len(piece).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + piece
        )
    return b"".join(frames)
