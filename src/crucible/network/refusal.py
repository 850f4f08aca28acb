"""How a program learns that it may not connect, if it speaks HTTP in clear: an answer it will show to somebody."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from crucible.network.connection import Connection
from crucible.network.events import advice
from crucible.network.names import shown
from crucible.network.outlet import ByteStream

# A program on an emulated processor of a busy host is slow to say what it wants once it is connected.
PEEK_S: Final = 5.0
WRITE_S: Final = 5.0
_FIRST_FREE_PORT: Final = 1024
_HTTP: Final = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS|CONNECT|TRACE) ")


def is_told(port: int) -> bool:
    """Whether HTTP in clear is likely enough to wait a moment for it."""
    return port == 80 or port >= _FIRST_FREE_PORT


async def has_asked(guest: ByteStream) -> bool:
    try:
        async with asyncio.timeout(PEEK_S):
            return _HTTP.match(await guest.read()) is not None
    except TimeoutError:
        return False


async def explain(guest: ByteStream, connection: Connection, sandbox: str, status: str) -> None:
    """Answers a request that came. The caller ends the stream."""
    async with asyncio.timeout(WRITE_S):
        await guest.write(answer(text_of(connection, sandbox), status))
        await guest.close()


def text_of(connection: Connection, sandbox: str) -> str:
    host = shown(connection.name or connection.address)
    text = f"crucible: {host}:{connection.port} was refused: {connection.reason}."
    if todo := advice(sandbox, connection.hint):
        text += f"\n{todo}."
    return text + "\n"


def answer(text: str, status: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
