"""A port of a sandbox on this machine's loopback: every connection made here is dialled there."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable

from crucible.client import protocol
from crucible.client.link import Link, LinkLost
from crucible.errors import PathRefused

Connect = Callable[[], socket.socket]

_CHUNK = 65536
_BACKLOG = 64
_MOST_CONNECTIONS = 64


def listen(port: int) -> socket.socket:
    """A listener on loopback; port 0 takes any that is free."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise PathRefused(
            f"Port {port} of this machine cannot be used: {error.strerror}",
            hint="Choose another one before the colon, or 0 for any",
        ) from None
    return listener


def forward(listener: socket.socket, connect: Connect, sandbox: str, port: int) -> None:
    """Serves until the listener is closed. A connection that fails ends itself alone."""
    room = threading.Semaphore(_MOST_CONNECTIONS)
    while True:
        try:
            local, _ = listener.accept()
        except OSError:
            return
        room.acquire()
        thread = threading.Thread(
            target=_serve, args=(local, connect, sandbox, port, room), daemon=True
        )
        thread.start()


def _serve(
    local: socket.socket, connect: Connect, sandbox: str, port: int, room: threading.Semaphore
) -> None:
    try:
        with local, contextlib.closing(Link(connect())) as link, contextlib.suppress(OSError):
            link.send(protocol.json_frame({"verb": "dial", "name": sandbox, "port": port}))
            _Pair(local, link).carry()
    finally:
        room.release()


class _Pair:
    def __init__(self, local: socket.socket, link: Link) -> None:
        self._local = local
        self._link = link
        self._untaken = 0
        self._is_started = False
        self._has_input = True

    def carry(self) -> None:
        while True:
            readers: list[socket.socket | Link] = [self._link]
            if self._is_started and self._has_input and self._untaken < protocol.WINDOW:
                readers.append(self._local)
            writers = [self._link] if self._link.unsent else []
            readable, writable, _ = select.select(readers, writers, [])
            if writable:
                self._link.flush()
            if self._local in readable:
                self._take_input()
            if self._link in readable and not self._take_frames():
                return

    def _take_input(self) -> None:
        data = self._local.recv(_CHUNK)
        if data:
            self._untaken += len(data)
            self._link.send(protocol.data_frame(protocol.INPUT, data))
        else:
            self._has_input = False
            self._link.send(protocol.end_frame(protocol.INPUT))

    def _take_frames(self) -> bool:
        """False when the conversation is over."""
        try:
            for kind, payload in self._link.receive():
                if kind == protocol.DATA:
                    self._local.sendall(payload[1:])
                elif kind == protocol.END:
                    self._local.shutdown(socket.SHUT_WR)
                elif kind == protocol.TAKEN:
                    self._untaken -= protocol.parse_taken(payload)[1]
                elif not self._take_message(protocol.parse_json(payload)):
                    return False
        except LinkLost:
            return False
        return True

    def _take_message(self, message: dict[str, object]) -> bool:
        if "started" in message:
            self._is_started = True
        return "ok" not in message and "error" not in message
