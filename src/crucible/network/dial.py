"""Connections that the host makes: to an address that was decided upon, never to a name."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Sequence
from typing import Final, Protocol

from crucible.network.addresses import Address
from crucible.network.outlet import ByteStream

CONNECT_S: Final = 15.0
NEXT_ATTEMPT_S: Final = 0.25
MAX_ATTEMPTS: Final = 6
CHUNK: Final = 1 << 18


class Dialer(Protocol):
    """Connects to one of the addresses, and says to which. Raises OSError (TimeoutError too) if none answers."""

    async def __call__(
        self, addresses: Sequence[Address], port: int
    ) -> tuple[ByteStream, Address]: ...


class SocketStream:
    """A ByteStream over a connected socket of ours."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        return await self._loop.sock_recv(self._socket, CHUNK)

    async def write(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def close_write(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        self._socket.close()

    async def abort(self) -> None:
        with contextlib.suppress(OSError):
            no_lingering = struct.pack("ii", 1, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_lingering)
        self._socket.close()


async def dial(addresses: Sequence[Address], port: int) -> tuple[SocketStream, Address]:
    """To the first address that answers; the next is tried as well when one is slow. Raises OSError."""
    tries: dict[asyncio.Task[socket.socket], Address] = {}
    failure: OSError = OSError("there is no address to connect to")
    waiting = _by_turns(addresses)[:MAX_ATTEMPTS]
    try:
        async with asyncio.timeout(CONNECT_S):
            while waiting or tries:
                if waiting:
                    address = waiting.pop(0)
                    tries[asyncio.create_task(_connect(address, port))] = address
                patience = NEXT_ATTEMPT_S if waiting else None
                done, _ = await asyncio.wait(
                    tries, timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    address = tries.pop(task)
                    try:
                        return SocketStream(task.result()), address
                    except OSError as error:
                        failure = error
    finally:
        await _give_up(list(tries))
    raise failure


async def _connect(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _by_turns(addresses: Sequence[Address]) -> list[Address]:
    """IPv6 and IPv4 in turns, beginning with the first's family."""
    if not addresses:
        return []
    version = addresses[0].version
    same = [address for address in addresses if address.version == version]
    other = [address for address in addresses if address.version != version]
    turns: list[Address] = []
    while same or other:
        turns += same[:1] + other[:1]
        same, other = same[1:], other[1:]
    return turns


async def _give_up(tries: list[asyncio.Task[socket.socket]]) -> None:
    for task in tries:
        task.cancel()
    for result in await asyncio.gather(*tries, return_exceptions=True):
        if isinstance(result, socket.socket):
            result.close()
