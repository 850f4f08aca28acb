"""A server that says what a test tells it to, over real sockets, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


# The bytes of each answer; the connection ends after one.
Script = Callable[[Asked], Sequence[bytes]]


@dataclass(slots=True, kw_only=True)
class Scripted:
    url: str
    script: Script
    asked: list[Asked] = field(default_factory=list)

    def says(self, *answers: bytes) -> None:
        """One after the other, each to one request; the last one from then on."""
        left = list(answers)
        self.script = lambda asked: [left.pop(0) if len(left) > 1 else left[0]]


@contextmanager
def scripted_server() -> Iterator[Scripted]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Scripted(
        url=f"http://127.0.0.1:{listener.getsockname()[1]}", script=lambda asked: [b""]
    )
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=_serve, args=(server, connection))
            thread.start()
            threads.append(thread)

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join(30)
            assert not thread.is_alive()


def _serve(server: Scripted, connection: socket.socket) -> None:
    connection.settimeout(20)
    with connection, connection.makefile("rb") as reading:
        try:
            asked = _request(reading)
            if asked is None:
                return
            server.asked.append(asked)
            for piece in server.script(asked):
                connection.sendall(piece)
        except OSError:
            return


def _request(reading: Any) -> Asked | None:
    first = reading.readline().decode().split()
    if len(first) != 3:
        return None
    headers: dict[str, str] = {}
    while line := reading.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(reading.readline().strip(), 16):
            body += reading.read(size)
            reading.readline()
        reading.readline()
    else:
        body = reading.read(int(headers.get("content-length", "0")))
    return Asked(method=first[0], path=first[1], headers=headers, body=body)


def answer(body: Any = None, status: int = 200, **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    kind = headers.pop("kind", "application/json")
    lines = [f"HTTP/1.1 {status} Said", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + data


def events(*told: tuple[str, Any] | tuple[str, Any, str], rest: bytes = b"") -> bytes:
    """A stream of events that ends with the connection."""
    head = b"HTTP/1.1 200 Said\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    lines = b"".join(
        (f"id: {one[2]}\n" if len(one) > 2 else "").encode()
        + f"event: {one[0]}\ndata: {json.dumps(one[1])}\n\n".encode()
        for one in told
    )
    return head + lines + rest


def problem(code: str, status: int, **headers: str) -> bytes:
    told = {
        "code": code,
        "message": f"It is {code}",
        "hint": "Do otherwise",
        "request_id": "r1",
        "status": status,
    }
    return answer(told, status, kind="application/problem+json", **headers)


EXIT = {
    "status": 0, "signal": None, "timed_out": False, "out_of_memory": False, "wall_s": 0.1,
    "cpu_s": 0.1, "peak_bytes": 1,
}  # fmt: skip


def box(name: str = "box", **changes: Any) -> dict[str, Any]:
    return {
        "id": "1", "name": name, "state": "running", "settings": {"image": "base"},
        "image_digest": "d", "backend": "b", "isolation": "software-vm", "created_at": 1.0,
        "started_at": None, "note": "", **changes,
    }  # fmt: skip


def command(**changes: Any) -> dict[str, Any]:
    return {
        "id": 7, "argv": ["a"], "user": "", "terminal": False, "started_at": None,
        "state": "running", "exit": None, **changes,
    }  # fmt: skip
