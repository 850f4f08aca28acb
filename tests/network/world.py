"""A small internet on loopback: names, addresses that look public, real servers behind them, and a machine's way out.

The gateway is the real one. Only the last step of dialling is turned aside, from an address of this world to the
port where its server really listens.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.network.authority import client_context

from crucible.network.addresses import Address, parse_address
from crucible.network.authority import Authority
from crucible.network.dial import SocketStream, dial
from crucible.network.events import Event
from crucible.network.gateway import Gateway, Limits
from crucible.network.metering import Meter
from crucible.network.outlet import Ask
from crucible.network.policy import Policy
from crucible.network.proxies import Proxies
from crucible.network.reach import Reach
from crucible.network.resolver import ResolveFailed
from crucible.network.secrets import Secrets

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class PairOutlet:
    """An Outlet made of socket pairs: one end is the program's, the other the gateway's."""

    def __init__(self) -> None:
        self._asks: asyncio.Queue[Ask] = asyncio.Queue()
        self._ends: dict[int, socket.socket] = {}
        self._number = 0

    def connect(self, name: str, port: int, address: str = "") -> socket.socket:
        """What a program in the machine gets: connected at once, reset later if it was refused."""
        program, ours = _tcp_pair()
        self.adopt(ours, name, port, address)
        return program

    def adopt(self, ours: socket.socket, name: str, port: int, address: str = "") -> None:
        """Makes an ask of a connection that was accepted."""
        self._number += 1
        self._ends[self._number] = ours
        shown = address or "198.18.0.1"
        self._asks.put_nowait(Ask(number=self._number, name=name, address=shown, port=port))

    async def next(self) -> Ask:
        return await self._asks.get()

    async def take(self, ask: Ask) -> SocketStream:
        return SocketStream(self._ends.pop(ask.number))

    async def refuse(self, ask: Ask) -> None:
        await SocketStream(self._ends.pop(ask.number)).abort()

    async def close(self) -> None:
        for end in self._ends.values():
            end.close()


@dataclass
class World:
    """`hosts` is its DNS; `servers` tells where an address and port of it really are."""

    hosts: dict[str, list[str]] = field(default_factory=dict)
    servers: dict[tuple[str, int], int] = field(default_factory=dict)
    dialled: list[str] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    repeats: list[Event] = field(default_factory=list)
    outlet: PairOutlet = field(default_factory=PairOutlet)
    gateway: Gateway = field(init=False)
    recorded: asyncio.Event = field(default_factory=asyncio.Event)
    handlers: set[asyncio.Task[None]] = field(default_factory=set)
    listeners: list[asyncio.Server] = field(default_factory=list)

    async def resolve(self, name: str) -> tuple[Address, ...]:
        self.lookups.append(name)
        if name not in self.hosts:
            raise ResolveFailed(f"`{name}` cannot be resolved")
        return tuple(filter(None, map(parse_address, self.hosts[name])))

    async def dial(self, addresses: Sequence[Address], port: int) -> tuple[SocketStream, Address]:
        self.dialled.append(f"{addresses[0]}:{port}")
        real = self.servers.get((str(addresses[0]), port))
        if real is None:
            raise ConnectionRefusedError(111, "Connection refused")
        loopback = parse_address("127.0.0.1")
        assert loopback is not None
        stream, _ = await dial([loopback], real)
        return stream, addresses[0]

    def repeat(self, event: Event) -> None:
        self.repeats.append(event)

    def record(self, event: Event) -> None:
        self.events.append(event)
        self.recorded.set()

    async def event(self, number: int = 1) -> Event:
        """The last event, once there are that many."""
        async with asyncio.timeout(60):
            while len(self.events) < number:
                await self.recorded.wait()
                self.recorded.clear()
        return self.events[-1]

    async def open(
        self, name: str, port: int, address: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(sock=self.outlet.connect(name, port, address))

    async def open_tls(
        self,
        name: str,
        port: int = 443,
        *,
        server_name: str,
        context: ssl.SSLContext,
        address: str = "",
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = self.outlet.connect(name, port, address)
        return await asyncio.open_connection(sock=sock, ssl=context, server_hostname=server_name)

    async def serve(
        self, handler: Handler, *places: tuple[str, int], tls: ssl.SSLContext | None = None
    ) -> asyncio.Server:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self.handlers.add(task)
            try:
                await handler(reader, writer)
            except asyncio.CancelledError:
                writer.transport.abort()
            finally:
                self.handlers.discard(task)

        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
        self.listeners.append(server)
        real = server.sockets[0].getsockname()[1]
        self.servers |= dict.fromkeys(places, real)
        return server

    async def close(self) -> None:
        for server in self.listeners:
            server.close()
        for task in list(self.handlers):
            task.cancel()
        await asyncio.gather(*self.handlers, return_exceptions=True)
        await self.outlet.close()


@asynccontextmanager
async def a_world(
    policy: Policy,
    *,
    limits: Limits | None = None,
    proxies: Proxies | None = None,
    secrets: Secrets | None = None,
    authority: Authority | None = None,
    meter: Meter | None = None,
) -> AsyncIterator[World]:
    world = World()
    reach = Reach(resolver=world, dialer=world.dial, proxies=proxies)
    world.gateway = Gateway(
        world.outlet,
        policy,
        world,
        sandbox="box",
        limits=limits,
        reach=reach,
        secrets=secrets,
        authority=authority,
        trust=client_context,
        meter=meter,
    )
    running = asyncio.create_task(world.gateway.run())
    mistakes: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: mistakes.append(str(context)))
    try:
        yield world
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await world.close()
        loop.set_exception_handler(None)
    assert not mistakes, mistakes
    assert world.gateway.open_connections == 0


@asynccontextmanager
async def a_door(world: World, name: str, port: int) -> AsyncIterator[int]:
    """A port on loopback for programs that cannot be handed a socket; whoever connects has asked for the name.

    Without a name it speaks SOCKS 5, and the program says what it asks for.
    """
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def accept(listener: socket.socket) -> None:
        while True:
            sock, _ = await loop.sock_accept(listener)
            sock.setblocking(False)
            if name:
                world.outlet.adopt(sock, name, port)
            else:
                tasks.add(asyncio.create_task(_socks(world, sock)))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        accepting = asyncio.create_task(accept(listener))
        try:
            yield listener.getsockname()[1]
        finally:
            for task in (accepting, *tasks):
                task.cancel()
            await asyncio.gather(accepting, *tasks, return_exceptions=True)


async def _socks(world: World, sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()

    async def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += await loop.sock_recv(sock, size - len(data))
        return data

    methods = (await exactly(2))[1]
    await exactly(methods)
    await loop.sock_sendall(sock, b"\x05\x00")
    kind = (await exactly(4))[3]
    name = address = ""
    if kind == 3:
        name = (await exactly((await exactly(1))[0])).decode()
    else:
        family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        address = socket.inet_ntop(family, await exactly(size))
    port = int.from_bytes(await exactly(2), "big")
    await loop.sock_sendall(sock, b"\x05\x00\x00\x01" + bytes(6))
    world.outlet.adopt(sock, name, port, address)


async def exchange(world: World, name: str, port: int, data: bytes, address: str = "") -> bytes:
    """Sends, ends, and reads all. b'' also when the connection was reset."""
    reader, writer = await world.open(name, port, address)
    try:
        async with asyncio.timeout(60):
            writer.write(data)
            await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except (OSError, ssl.SSLError):
        return


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        return
    finally:
        await close(writer)


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers every request with the hosts it named, as lenient as servers come."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = 0
            host = b""
            for line in head.split(b"\r\n"):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
                if name.lower() == b"host":
                    host = value.strip()
            await reader.readexactly(length)
            first = head.split(b"\r\n")[0]
            body = b"[" + first + b" for " + host + b"]"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
            if b"\r\nConnection: close\r\n" in head:
                return
    except (asyncio.IncompleteReadError, OSError):
        return
    finally:
        await close(writer)


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    program.setblocking(False)
    return program, ours
