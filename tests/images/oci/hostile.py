"""A server on loopback that answers what a test tells it to: lies, halves, loops, silence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.images.registry import MadeImage


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Reply:
    """`length` is what Content-Length says, the body's own unless given; None leaves it out. After `body` the
    connection ends, or with `stalls` stays open and silent."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: int | None = -1
    stalls: bool = False
    drips: bool = False


Script = Callable[[Seen], Reply]


@dataclass(kw_only=True)
class Hostile:
    port: int
    script: Script
    seen: list[Seen] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked(self, part: str) -> list[Seen]:
        return [request for request in self.seen if part in request.path]


@contextmanager
def hostile(script: Script) -> Iterator[Hostile]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.close_connection = True
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Seen(
                method=self.command, path=self.path, headers=dict(self.headers.items()), body=body
            )
            place.seen.append(request)
            reply = place.script(request)
            with suppress(OSError):  # the client has had enough
                self._send(reply)

        def _send(self, reply: Reply) -> None:
            self.send_response_only(reply.status)
            length = len(reply.body) if reply.length == -1 else reply.length
            if length is not None:
                self.send_header("Content-Length", str(length))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)
            while reply.drips and not place.over.wait(0.05):
                self.wfile.write(b"x")
            if reply.stalls:
                place.over.wait()

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = answer  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    place = Hostile(port=server.server_port, script=script)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield place
    finally:
        place.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def honest(image: MadeImage, *, ranges: bool = True) -> Script:
    """What a registry would answer for that one image under any name."""

    def script(request: Seen) -> Reply:
        name = request.path.rpartition("/")[2]
        if "/manifests/" in request.path:
            headers = {"Content-Type": image.media_type, "Docker-Content-Digest": image.digest}
            return Reply(headers=headers, body=image.manifest)
        data = image.blobs.get(name)
        if data is None:
            return Reply(status=404)
        asked = request.headers.get("Range", "")
        if ranges and asked:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
            return Reply(status=206, headers=headers, body=data[start:])
        return Reply(body=data)

    return script
