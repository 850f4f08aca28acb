"""Ports of a sandbox on this machine: every connection made here is dialled there, for as long as it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from crucible.errors import PortTaken, SandboxError, TooManyPorts
from crucible.sandbox.backend import Machine
from crucible.sandbox.doors.ports import LOOPBACK, MOST_PORTS, Port
from crucible.sandbox.session import ByteStream

MOST_CONNECTIONS = 256
_CHUNK_BYTES = 65_536


class Published:
    """Opened once, added to, closed once. A connection that fails ends itself alone."""

    def __init__(self, machine: Machine) -> None:
        self.ports: tuple[Port, ...] = ()
        self._machine = machine
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        return bool(self._connections)

    async def open(self, ports: Sequence[Port]) -> None:
        """All of them or none. Raises PortTaken."""
        try:
            self.ports = tuple([await self._listen(port) for port in ports])
        except BaseException:
            self.close()
            raise

    async def add(self, guest: int) -> Port:
        """One more, on this machine's loopback, at any free port; the one that is there if there is one."""
        for port in self.ports:
            if port.guest == guest:
                return port
        if len(self.ports) >= MOST_PORTS:
            raise TooManyPorts(MOST_PORTS)
        port = await self._listen(Port(LOOPBACK, 0, guest))
        self.ports = (*self.ports, port)
        return port

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()

    async def _listen(self, port: Port) -> Port:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(port.guest, reader, writer)

        try:
            server = await asyncio.start_server(
                accepted, port.address, port.host, limit=_CHUNK_BYTES
            )
        except OSError as error:
            raise PortTaken(port.address, port.host, error.strerror or str(error)) from None
        self._servers.append(server)
        return port._replace(host=server.sockets[0].getsockname()[1])

    async def _serve(
        self, guest: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            with contextlib.suppress(SandboxError, OSError, asyncio.CancelledError):
                await self._carry(await self._machine.dial(guest), reader, writer)
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _carry(
        self, stream: ByteStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Either side may end its half first; the other goes on."""
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_inward(reader, stream))
                both.create_task(_outward(stream, writer))
            # What the last write left in the buffer belongs to the other side.
            writer.close()
            await writer.wait_closed()
        except* (SandboxError, OSError):
            pass
        finally:
            await stream.close()


async def _inward(reader: asyncio.StreamReader, stream: ByteStream) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        await stream.write(data)
    await stream.close_write()


async def _outward(stream: ByteStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
