"""What happens between a connection that a program wants and the server: decide, reach, watch, copy, say why not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from crucible.network.addresses import parse_address
from crucible.network.claims import Expected, Rewrite, in_absolute_form
from crucible.network.connection import Connection, relay
from crucible.network.http1 import Request
from crucible.network.names import normal_name
from crucible.network.outlet import ByteStream
from crucible.network.policy import Decision
from crucible.network.providers import Provider, is_of_provider, provider_of
from crucible.network.reach import Decide, Denied, Reach, Reached
from crucible.network.refusal import explain, has_asked
from crucible.network.secrets import Secret, Secrets
from crucible.network.violation import Violation
from crucible.network.watch import Watch

if TYPE_CHECKING:
    import ssl

    from crucible.network.authority import Authority
    from crucible.network.intercept import Interception
    from crucible.network.metering import Meter

_UNCOUNTED = "calls of models are counted, for which they must be HTTP/1.1 within TLS"


class Carrier:
    """`decide` is asked anew each time, since the policy may change. What came of it stands in the connection.

    `tell` is called with one that was refused, before the program in the machine learns of it.
    """

    def __init__(
        self,
        *,
        decide: Decide,
        reach: Reach,
        sandbox: str,
        secrets: Secrets,
        authority: Authority | None,
        trust: Callable[[], ssl.SSLContext] | None,
        tell: Callable[[Connection], None],
        meter: Meter | None = None,
    ) -> None:
        self._meter = meter
        self._is_counting = meter is not None
        self._decide = decide
        self._reach = reach
        self._sandbox = sandbox
        self._secrets = secrets
        self._authority = authority
        self._trust = trust
        self._tell = tell
        self._made: Interception | None = None

    async def reach(self, connection: Connection) -> Reached | None:
        """None when nobody answers; raises Denied."""
        name, address, port = connection.name, connection.address, connection.port
        if self._meter is not None and (not name or is_of_provider(name)):
            # Limits come and go while a sandbox runs; what is under way stays as it began.
            self._is_counting = await self._meter.is_binding()
        decision = self._counted(name, port, self._decide(name, address, port))
        connection.settle(decision)
        try:
            if not decision.allowed:
                raise Denied(decision)
            reached = await self._reach(name, address, port, self._decide)
        except Denied as denied:
            connection.settle(denied.decision)
            raise
        except OSError as error:
            connection.fail(told(error))
            return None
        connection.settle(reached.decision)
        connection.address = reached.address or connection.address
        return reached

    def _counted(self, name: str, port: int, decision: Decision) -> Decision:
        """Under a budget, a model provider is reached only where its calls can be counted."""
        if not self._is_counting or not decision.allowed or not is_of_provider(name):
            return decision
        if provider_of(name) is not None and self._secrets.bound(name, port):
            return decision
        return replace(
            decision,
            allowed=False,
            rule="budget",
            reason=f"calls to `{name}` cannot be counted: its key is not a secret of this sandbox",
        )

    async def reach_or_explain(
        self, connection: Connection, guest: ByteStream, *, is_read: bool
    ) -> Reached | None:
        """For programs that are known to speak HTTP: they are told when there is no connection."""
        try:
            reached = await self.reach(connection)
        except Denied:
            await self.explain(connection, guest, is_read=is_read)
            return None
        if reached is None:
            await self.explain(connection, guest, is_read=is_read, status="502 Bad Gateway")
        return reached

    async def explain(
        self,
        connection: Connection,
        guest: ByteStream,
        *,
        is_read: bool = False,
        status: str = "403 Forbidden",
    ) -> None:
        """Answers if a request comes, or was read; returns either way. The caller ends the stream."""
        is_http = is_read or await has_asked(guest)
        if is_http:
            connection.protocol = "http"
        self._tell(connection)
        if is_http:
            await explain(guest, connection, self._sandbox, status)

    async def carry(
        self,
        connection: Connection,
        guest: ByteStream,
        reached: Reached,
        *,
        rewrite: Rewrite | None = None,
        greeting: bytes = b"",
    ) -> None:
        """Ends both streams."""
        bound = self._secrets.bound(connection.name, connection.port)
        try:
            if greeting:
                await guest.write(greeting)
            if self._is_counting and is_of_provider(connection.name):
                await self._carry_counted(connection, guest, reached, rewrite, bound)
            elif bound and rewrite is None and reached.forward is None:
                await self._carry_with_secrets(connection, guest, reached, bound)
            else:
                await self._carry_as_is(connection, guest, reached, rewrite)
        finally:
            await reached.stream.abort()
            await guest.abort()

    async def carry_by_proxy(
        self,
        connection: Connection,
        guest: ByteStream,
        *,
        rewrite: Rewrite | None = None,
        greeting: bytes = b"",
    ) -> None:
        reached = await self.reach_or_explain(connection, guest, is_read=True)
        if reached is not None:
            await self.carry(connection, guest, reached, rewrite=rewrite, greeting=greeting)

    async def carry_for_provider(
        self, connection: Connection, guest: ByteStream, provider: Provider
    ) -> None:
        """A program that came to the plain endpoint of a model provider."""
        connection.name, connection.port = provider.host, 443
        bound = self._secrets.bound(provider.host, 443)
        if not bound:
            reason = (
                f"no secret is bound to `{provider.host}`, so `{provider.endpoint}` leads nowhere"
            )
            connection.settle(refusal(reason))
            await self.explain(connection, guest)
            return
        reached = await self.reach_or_explain(connection, guest, is_read=False)
        if reached is None:
            return
        try:
            await self._interception().as_endpoint(connection, guest, provider, reached, bound)
        except OSError as error:
            connection.fail(told(error))
            await self.explain(connection, guest, status="502 Bad Gateway")
        finally:
            await reached.stream.abort()

    async def _carry_as_is(
        self,
        connection: Connection,
        guest: ByteStream,
        reached: Reached,
        rewrite: Rewrite | None = None,
    ) -> None:
        expected = self._expected(connection, reached)
        if reached.forward is not None:
            rewrite = _both(rewrite, partial(in_absolute_form, expected, reached.forward))
        is_bound = bool(self._secrets.bound(connection.host, connection.port))
        guard = self._secrets.guard(connection.host + (" without TLS" if is_bound else ""))
        watch = Watch(expected, rewrite=rewrite, guard=guard)
        await self._copy(connection, guest, reached.stream, watch)

    async def _carry_with_secrets(
        self,
        connection: Connection,
        guest: ByteStream,
        reached: Reached,
        bound: tuple[Secret, ...],
    ) -> None:
        from crucible.network.intercept import read_hello

        expected = self._expected(connection, reached)
        try:
            hello, guest = await read_hello(guest)
            if hello is None and self._is_counting and is_of_provider(connection.name):
                raise Violation(_UNCOUNTED, rule="budget")
            if hello is None:
                await self._carry_as_is(connection, guest, reached)
                return
            await self._interception().as_host(connection, guest, hello, reached, expected, bound)
        except Violation as violation:
            connection.settle(_decision(violation))
            self._tell(connection)
        except OSError as error:
            connection.fail(told(error))
            self._tell(connection)

    async def _carry_counted(
        self,
        connection: Connection,
        guest: ByteStream,
        reached: Reached,
        rewrite: Rewrite | None,
        bound: tuple[Secret, ...],
    ) -> None:
        """Only within TLS, where its requests can be read and its key is put in."""
        if rewrite is None and reached.forward is None and bound:
            await self._carry_with_secrets(connection, guest, reached, bound)
            return
        connection.settle(replace(refusal(_UNCOUNTED), rule="budget"))
        if rewrite is not None:
            await self.explain(connection, guest, is_read=True)
        else:
            self._tell(connection)

    async def _copy_to_tls(
        self, connection: Connection, guest: ByteStream, server: ByteStream, watch: Watch
    ) -> None:
        await self._copy(connection, guest, server, watch, can_half_close=False)

    async def _copy(
        self,
        connection: Connection,
        guest: ByteStream,
        server: ByteStream,
        watch: Watch,
        *,
        can_half_close: bool = True,
    ) -> None:
        try:
            await relay(connection, guest, server, watch, can_half_close=can_half_close)
            await server.close()
            await guest.close()
        except Violation as violation:
            connection.settle(_decision(violation))
            if watch.protocol == "http" and not watch.has_answer:
                await self.explain(connection, guest, is_read=True)
            else:
                self._tell(connection)
        except OSError as error:
            if connection.is_allowed:
                connection.reason = told(error)

    def _interception(self) -> Interception:
        if self._made is None:
            from crucible.network.intercept import Interception
            from crucible.network.tls import client_context

            trust = self._trust or client_context
            self._made = Interception(
                self._secrets, self._authority, self._copy_to_tls, trust,
                meter=lambda: self._meter if self._is_counting else None, tell=self._tell,
            )  # fmt: skip
        return self._made

    def _expected(self, connection: Connection, reached: Reached) -> Expected:
        return Expected(
            name=connection.name,
            address=connection.address,
            port=connection.port,
            allows=partial(self._allows, port=connection.port),
            is_checked=reached.decision.is_checked,
            may_be_silent=reached.decision.may_be_silent,
        )

    def _allows(self, host: str, port: int) -> bool:
        """Whether a stream to a bare address may say that it is for this host."""
        if self._is_counting and is_of_provider(host):
            return False
        if parse_address(host) is not None:
            return self._decide("", host, port).allowed
        return normal_name(host) is not None and self._decide(host, "", port).allowed


def refusal(reason: str) -> Decision:
    return Decision(allowed=False, rule="names", reason=reason)


def _decision(violation: Violation) -> Decision:
    return Decision(
        allowed=False, rule=violation.rule, reason=violation.reason, hint=violation.hint
    )


def told(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "nobody answered in time"
    # asyncio puts its own words, with an address in them, in the place of the system's.
    if error.errno and (error.strerror or "").startswith("Connect call failed"):
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _both(first: Rewrite | None, second: Rewrite) -> Rewrite:
    if first is None:
        return second

    def both(request: Request) -> Request:
        return second(first(request))

    return both
