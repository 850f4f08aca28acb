"""Puts secrets into requests on their way: as the host itself, to programs that trust the sandbox's authority, or
behind a plain endpoint for a model provider. The other side is always the real host, over TLS that was verified."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from crucible.network.authority import Authority
from crucible.network.claims import Claims, Expected, Http2Claims, HttpClaims
from crucible.network.connection import HEAD_S, Connection
from crucible.network.guard import Guard
from crucible.network.hello import Hello, HelloReader
from crucible.network.http1 import Request, split_absolute
from crucible.network.outlet import ByteStream
from crucible.network.providers import Provider, provider_of
from crucible.network.proxies import Begun
from crucible.network.reach import Reached
from crucible.network.secrets import Secret, Secrets, leaks, put_into_head, put_into_request
from crucible.network.tls import TlsStream
from crucible.network.violation import Malformed, Violation
from crucible.network.watch import Watch

if TYPE_CHECKING:
    from crucible.network.metering import Meter
    from crucible.network.metering_exchange import Room

KNOWN_PROTOCOLS = ("h2", "http/1.1")
COUNTED_PROTOCOL = "http/1.1"

Carry = Callable[[Connection, ByteStream, ByteStream, Watch], Awaitable[None]]


class Interception:
    """`carry` copies between two streams under a watch and ends both.

    While there is a `meter`, connections to model providers are not copied but counted, request by request.
    """

    def __init__(
        self,
        secrets: Secrets,
        authority: Authority | None,
        carry: Carry,
        trust: Callable[[], ssl.SSLContext],
        *,
        meter: Callable[[], Meter | None] = lambda: None,
        tell: Callable[[Connection], None] = lambda connection: None,
    ) -> None:
        self.secrets = secrets
        self._authority = authority
        self._carry = carry
        self._trust = trust
        self._meter = meter
        self._tell = tell
        self._room: Room | None = None
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}

    async def as_host(
        self,
        connection: Connection,
        guest: ByteStream,
        hello: Hello,
        reached: Reached,
        expected: Expected,
        bound: tuple[Secret, ...],
    ) -> None:
        """`guest` begins with the hello, which was read already. Raises Violation and OSError."""
        if self._authority is None:
            raise Violation(
                "a secret is bound to the host, and there is no authority to speak for it"
            )
        presented = (hello.server_name,) if hello.server_name else ()
        strict = replace(expected, is_checked=True, may_be_silent=False)
        strict.check(presented, "server name of TLS")
        provider = provider_of(connection.name) if self._meter() is not None else None
        offered = tuple(name for name in KNOWN_PROTOCOLS if name in hello.protocols)
        if provider is not None:
            if hello.protocols and COUNTED_PROTOCOL not in hello.protocols:
                raise Violation("calls of models are counted, for which they must be HTTP/1.1")
            offered = (COUNTED_PROTOCOL,) if hello.protocols else ()
        server, protocol = await self._secure(reached.stream, connection.name, offered)
        context = self._authority.context(connection.name, protocol)
        inner = TlsStream(guest, context, server_name=None)
        try:
            await inner.shake_hands()
        except ssl.SSLError as error:
            reason = f"the program does not take the certificate of the sandbox: {error.reason}"
            raise OSError(reason) from None
        guard = self.secrets.guard(connection.name, bound)
        if provider is not None:
            _tell(connection, bound)
            claims = HttpClaims(strict, rewrite=partial(_for_host, bound), guard=guard)
            await self._count(connection, inner, server, provider, claims, guard, bound)
            return
        watch = Watch(strict, claims=_claims(strict, protocol, bound, guard), leaks=leaks(bound))
        _tell(connection, bound)
        await self._carry(connection, inner, server, watch)

    async def as_endpoint(
        self,
        connection: Connection,
        guest: ByteStream,
        provider: Provider,
        reached: Reached,
        bound: tuple[Secret, ...],
    ) -> None:
        """Plain HTTP/1.1 from the program, TLS to the provider. Raises OSError."""
        expected = Expected(name=provider.endpoint, address="", port=80, allows=lambda host: False)
        server, _ = await self._secure(reached.stream, provider.host, ("http/1.1",))
        guard = self.secrets.guard(provider.host, bound)
        rewrite = partial(_for_provider, provider, bound)
        claims = HttpClaims(expected, rewrite=rewrite, guard=guard)
        _tell(connection, bound)
        if self._meter() is not None:
            await self._count(connection, guest, server, provider, claims, guard, bound)
            return
        watch = Watch(expected, claims=claims, leaks=leaks(bound))
        await self._carry(connection, guest, server, watch)

    async def _count(
        self,
        connection: Connection,
        guest: ByteStream,
        server: ByteStream,
        provider: Provider,
        claims: HttpClaims,
        guard: Guard | None,
        bound: tuple[Secret, ...],
    ) -> None:
        from crucible.network.metering_exchange import Metered, Room, serve_metered

        meter = self._meter()
        if meter is None:
            raise OSError("the limits were lifted while this began; try again")
        self._room = self._room or Room()
        metered = Metered(
            provider=provider,
            meter=meter,
            room=self._room,
            prepare=claims.judge,
            guard=guard,
            leaks=leaks(bound),
            tell=self._tell,
        )
        try:
            await serve_metered(connection, guest, server, metered)
        except OSError as error:
            # What was begun is over, and what could be said was: there is no answer left to give.
            if connection.is_allowed:
                connection.reason = str(error) or type(error).__name__
            self._tell(connection)

    async def _secure(
        self, stream: ByteStream, host: str, protocols: tuple[str, ...]
    ) -> tuple[TlsStream, str]:
        if protocols not in self._contexts:
            # Reading all authorities of the host takes a while.
            context = await asyncio.to_thread(self._trust)
            if protocols:
                context.set_alpn_protocols(list(protocols))
            self._contexts[protocols] = context
        server = TlsStream(stream, self._contexts[protocols], server_name=host)
        try:
            return server, await server.shake_hands()
        except ssl.SSLCertVerificationError as error:
            raise OSError(f"`{host}` is not who it says: {error.verify_message}") from None


async def read_hello(guest: ByteStream) -> tuple[Hello | None, ByteStream]:
    """The hello that a stream begins with, None if it begins otherwise; and the stream as if nothing had been read."""
    reader = HelloReader()
    first = b""
    async with asyncio.timeout(HEAD_S):
        while True:
            piece = await guest.read()
            first += piece
            if not piece or first[:1] != b"\x16" or first[1:2] not in (b"", b"\x03"):
                return None, Begun(guest, first)
            try:
                hellos = reader.feed(piece)
            except Malformed as error:
                raise Violation(str(error)) from None
            if hellos:
                return hellos[0], Begun(guest, first)


def _claims(
    expected: Expected, protocol: str, bound: tuple[Secret, ...], guard: Guard | None
) -> Claims:
    if protocol == "h2":
        rewrite_head = partial(put_into_head, bound)
        return Http2Claims(expected, protocol="h2", rewrite=rewrite_head, guard=guard)
    return HttpClaims(expected, rewrite=partial(_for_host, bound), guard=guard)


def _for_host(bound: tuple[Secret, ...], request: Request) -> Request:
    if request.method.upper() == b"TRACE":
        raise Violation("a request asks for its own head back")
    return put_into_request(bound, request)


def _for_provider(provider: Provider, bound: tuple[Secret, ...], request: Request) -> Request:
    absolute = split_absolute(request.target)
    fields = (
        (name, provider.host.encode() if name.lower() == b"host" else value)
        for name, value in request.fields
    )
    target = request.target if absolute is None else absolute[2]
    return _for_host(bound, replace(request, target=target, fields=tuple(fields)))


def _tell(connection: Connection, bound: tuple[Secret, ...]) -> None:
    names = ", ".join(secret.name for secret in bound)
    connection.reason += f", with the secret {names}"
