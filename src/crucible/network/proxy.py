"""A proxy inside the machine, for programs that insist on one: every request to it is decided like a connection.

It is called `proxy.crucible.internal:3128`. A tunnel is held to the name it was asked for, as any connection is; a
request in absolute form gets a connection of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from crucible.network.addresses import parse_address
from crucible.network.connection import HEAD_S, Connection
from crucible.network.http1 import MAX_HEAD, Request, parse_request, split_absolute, split_authority
from crucible.network.names import OWN_SUFFIX
from crucible.network.outlet import ByteStream
from crucible.network.proxies import Begun
from crucible.network.refusal import answer
from crucible.network.violation import Malformed, Violation

NAME: Final = f"proxy{OWN_SUFFIX}"
PORT: Final = 3128
# For the environment of programs in the machine; what is the machine's own, or answered by us, needs no proxy.
VARIABLES: Final = {
    "HTTP_PROXY": f"http://{NAME}:{PORT}",
    "HTTPS_PROXY": f"http://{NAME}:{PORT}",
    "NO_PROXY": f"localhost,127.0.0.1,::1,{OWN_SUFFIX}",
}

_HOP_BY_HOP: Final = (
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"proxy-authorization",
    b"upgrade",
)


class Carry(Protocol):
    """Decides on the connection as it now stands, and carries it; `greeting` is sent once the server is reached."""

    async def __call__(
        self,
        connection: Connection,
        guest: ByteStream,
        *,
        rewrite: Callable[[Request], Request] | None = None,
        greeting: bytes = b"",
    ) -> None: ...


async def serve_proxy(connection: Connection, guest: ByteStream, carry: Carry) -> None:
    """One connection to the proxy. Ends the stream."""
    try:
        head, rest = await _read_head(guest)
        request = parse_request(head)
        target = _target(request)
    except (Malformed, TimeoutError) as error:
        connection.fail(str(error) or "no request came in time")
        await guest.write(answer("crucible: this is a proxy for HTTP.\n", "400 Bad Request"))
        await guest.close()
        return
    host, connection.port = target
    is_literal = parse_address(host) is not None
    connection.name, connection.address = ("", host) if is_literal else (host, "")
    if request.method == b"CONNECT":
        greeting = b"HTTP/1.1 200 Connected\r\n\r\n"
        await carry(connection, Begun(guest, rest), greeting=greeting)
        return
    await carry(connection, Begun(guest, head + rest), rewrite=_Once())


class _Once:
    """Turns the one request of a connection into what a server wants. A second could be for somebody else."""

    def __init__(self) -> None:
        self._is_used = False

    def __call__(self, request: Request) -> Request:
        if self._is_used:
            raise Violation("a second request came on a connection to the proxy")
        self._is_used = True
        absolute = split_absolute(request.target)
        path = request.target if absolute is None else absolute[2]
        kept = request.without(*_HOP_BY_HOP).fields
        return replace(request, target=path, fields=(*kept, (b"Connection", b"close")))


async def _read_head(guest: ByteStream) -> tuple[bytes, bytes]:
    held = b""
    async with asyncio.timeout(HEAD_S):
        while (end := held.find(b"\r\n\r\n")) < 0:
            if len(held) > MAX_HEAD:
                raise Malformed("a request to the proxy has no end")
            piece = await guest.read()
            if not piece:
                raise Malformed("a request to the proxy is cut off")
            held += piece
    return held[: end + 4], held[end + 4 :]


def _target(request: Request) -> tuple[str, int]:
    if request.method == b"CONNECT":
        host, port = split_authority(request.target)
        if port is None:
            raise Malformed("a tunnel was asked for without a port")
        return host, port
    absolute = split_absolute(request.target)
    if absolute is None or absolute[0] != b"http":
        raise Malformed("a request to the proxy is not for http://")
    host, port = split_authority(absolute[1])
    return host, port or 80
