"""One connection as frames in both directions. Never blocks: the exchange decides when to wait."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from crucible.client import protocol

RECEIVE_BYTES = 1 << 18

Frame = tuple[int, bytes]


class LinkLost(Exception):
    """The other side is gone. Whoever catches it knows whether that can be mended."""


class Link:
    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self.has_received = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def unsent(self) -> int:
        return len(self._outgoing)

    def send(self, frame: bytes) -> None:
        """Queues a frame and sends what goes out at once."""
        self._outgoing += frame
        self.flush()

    def flush(self) -> None:
        """Loss is not reported here: what the other side said before it went is still to be read."""
        while self._outgoing:
            try:
                count = self._socket.send(self._outgoing)
            except BlockingIOError:
                return
            except OSError:
                self._outgoing.clear()
                return
            del self._outgoing[:count]

    def receive(self) -> Iterator[Frame]:
        """The frames that have arrived. Raises LinkLost at the end of the connection."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkLost(error.strerror or "") from None
        if not data:
            raise LinkLost("the connection was closed")
        self.has_received = True
        self._incoming += data
        yield from self._frames()

    def _frames(self) -> Iterator[Frame]:
        begin = 0
        while len(self._incoming) - begin >= protocol.HEADER_BYTES:
            body = begin + protocol.HEADER_BYTES
            kind, length = protocol.parse_header(bytes(self._incoming[begin:body]))
            if len(self._incoming) - body < length:
                break
            begin = body + length
            yield kind, bytes(self._incoming[body:begin])
        del self._incoming[:begin]

    def close(self) -> None:
        self._socket.close()
