"""A service that says exactly what a test tells it to, on a real socket; and clients of it as real processes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crucible.client import protocol

DEADLINE_S = 120.0
DRIVER = Path(__file__).with_name("driver.py")
EXITED = {"exit": {"status": 0}}


class Peer:
    """The service's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(DEADLINE_S)
        self._socket = connection
        self._held = bytearray()

    def request(self) -> dict[str, Any]:
        kind, payload = self.frame()
        assert kind == protocol.JSON
        return protocol.parse_json(payload)

    def frame(self) -> tuple[int, bytes]:
        kind, length = protocol.parse_header(self._exactly(protocol.HEADER_BYTES))
        return kind, self._exactly(length)

    def frames_until_quiet(self, seconds: float = 0.5) -> list[tuple[int, bytes]]:
        """All frames up to a pause of that length."""
        found = []
        self._socket.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            while True:
                found.append(self.frame())
        self._socket.settimeout(DEADLINE_S)
        return found

    def message(self) -> dict[str, Any]:
        """The next JSON message; acknowledgements before it are passed over."""
        while True:
            kind, payload = self.frame()
            if kind == protocol.JSON:
                return protocol.parse_json(payload)

    def taken(self, channel: int, wanted: int) -> None:
        """Reads until so many bytes of the channel were acknowledged."""
        while wanted > 0:
            kind, payload = self.frame()
            if kind == protocol.TAKEN:
                number, count = protocol.parse_taken(payload)
                wanted -= count if number == channel else 0
        assert wanted == 0

    def input(self, size: int | None = None) -> bytes:
        """What comes on channel 0, up to its end or so many bytes. Nothing is acknowledged."""
        found = b""
        while size is None or len(found) < size:
            kind, payload = self.frame()
            if kind == protocol.END:
                break
            if kind == protocol.DATA:
                assert payload[0] == protocol.INPUT
                found += payload[1:]
        return found

    def say(self, **message: Any) -> None:
        self.send(protocol.json_frame(message))

    def start(self, **facts: Any) -> None:
        self.say(started={"stream": 3, "pid": 7, "name": "box", **facts})

    def output(self, data: bytes, channel: int = protocol.OUTPUT) -> None:
        self.send(protocol.data_frame(channel, data))

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def is_closed(self) -> bool:
        """Whether the client goes now; what it still sends is passed over."""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                self.frame()
        return True

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        while len(self._held) < size:
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._held += data
        found = bytes(self._held[:size])
        del self._held[:size]
        return found


Script = Callable[[Peer], None]


class ScriptedService:
    """Plays one script for each connection, in order. A script that fails fails the test."""

    def __init__(self, path: Path, *scripts: Script) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(DEADLINE_S)
        self._failure: BaseException | None = None
        self.clients: list[subprocess.Popen[bytes]] = []
        self._thread = threading.Thread(target=self._play, args=(scripts,))
        self._thread.start()

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.path))
        return connection

    def finish(self) -> None:
        for client in self.clients:
            client.kill()
            client.communicate()
        self._thread.join(DEADLINE_S)
        self._listener.close()
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _play(self, scripts: tuple[Script, ...]) -> None:
        try:
            for script in scripts:
                connection, _ = self._listener.accept()
                peer = Peer(connection)
                try:
                    script(peer)
                finally:
                    peer.close()
        except BaseException as error:
            self._failure = error


@contextlib.contextmanager
def playing(directory: Path, *scripts: Script) -> Iterator[ScriptedService]:
    service = ScriptedService(directory / "s", *scripts)
    try:
        yield service
    finally:
        service.finish()


def start_client(service: ScriptedService, **settings: Any) -> subprocess.Popen[bytes]:
    """A real process joined to the service's command; `settings` are those of Conduct and of Popen's streams."""
    streams = {
        name: settings.pop(name) for name in ("stdin", "stdout", "stderr") if name in settings
    }
    client = subprocess.Popen(
        client_argv(service, **settings),
        env=client_environment(),
        **{
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **streams,
        },
    )
    service.clients.append(client)
    return client


def client_argv(service: ScriptedService, **conduct: Any) -> list[str]:
    return [sys.executable, str(DRIVER), str(service.path), json.dumps(conduct)]


def client_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
