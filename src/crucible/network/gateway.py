"""A sandbox's way out: takes what the machine asks for, decides, dials, copies both ways, and tells of it.

There is one for each sandbox with a network. Its policy can be replaced while it runs.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from crucible.errors import SandboxError
from crucible.network import addresses, proxy
from crucible.network.addresses import Classifier, parse_address
from crucible.network.claims import Expected, Rewrite, in_absolute_form
from crucible.network.connection import Connection, relay
from crucible.network.events import EventSink, Folding, Outcome
from crucible.network.http1 import Request
from crucible.network.names import OWN_SUFFIX, normal_name
from crucible.network.outlet import ByteStream, Outlet
from crucible.network.policy import Decision, Policy
from crucible.network.reach import Denied, Reach, Reached
from crucible.network.refusal import explain, is_told
from crucible.network.violation import Violation
from crucible.network.watch import Watch

SWEEP_S: Final = 15.0
CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    connections: int = 256
    idle_s: float = 3600.0


class Gateway:
    """`run` serves until it is cancelled or the machine has ended; then it raises what the outlet raised."""

    def __init__(
        self,
        outlet: Outlet,
        policy: Policy,
        events: EventSink,
        *,
        sandbox: str = "",
        limits: Limits | None = None,
        reach: Reach | None = None,
        classify: Classifier = addresses.kind_of,
    ) -> None:
        self._outlet = outlet
        self._policy = policy
        self._events = Folding(events)
        self._sandbox = sandbox
        self._limits = limits or Limits()
        self._reach = reach or Reach()
        self._classify = classify
        self._open: dict[int, Connection] = {}

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        """Connections that the new policy does not allow are cut at once."""
        self._policy = policy
        for connection in list(self._open.values()):
            if connection.outcome is not Outcome.ALLOWED:
                continue
            decision = self.decide(connection.name, connection.address, connection.port)
            if not decision.allowed:
                connection.rule, connection.hint = decision.rule, decision.hint
                connection.end(Outcome.CUT, f"the policy was changed: {decision.reason}")

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def decide(self, name: str, address: str, port: int) -> Decision:
        return self._policy.decide(name, address, port, self._classify)

    async def run(self) -> None:
        sweeping = asyncio.create_task(self._sweep())
        try:
            while True:
                connection = Connection.of(await self._outlet.next())
                if len(self._open) >= self._limits.connections:
                    await self._refuse_excess(connection)
                    continue
                self._open[id(connection)] = connection
                connection.task = asyncio.create_task(self._serve(connection))
        finally:
            sweeping.cancel()
            await self._end_all()
            self._events.flush()

    async def _end_all(self) -> None:
        tasks = [task for connection in self._open.values() if (task := connection.task)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)

    async def _sweep(self) -> None:
        """Ends connections on which nothing has moved for long."""
        while True:
            await asyncio.sleep(min(SWEEP_S, self._limits.idle_s))
            self._events.flush(older_than_s=SWEEP_S)
            last = time.monotonic() - self._limits.idle_s
            for connection in list(self._open.values()):
                if connection.active < last:
                    reason = f"nothing moved for {self._limits.idle_s:g} s, the most it may"
                    connection.end(Outcome.LIMITED, reason)

    async def _refuse_excess(self, connection: Connection) -> None:
        most = self._limits.connections
        connection.outcome, connection.rule = Outcome.LIMITED, "connections"
        connection.reason = f"{most} connections are open, the most that this sandbox may have"
        self._events.record(connection.event(self._sandbox))
        await self._outlet.refuse(connection.ask)

    async def _serve(self, connection: Connection) -> None:
        try:
            await self._answer(connection)
        except asyncio.CancelledError:
            if not connection.is_ending:
                connection.reason = "the network was turned off"
                raise
        except SandboxError:
            connection.reason = "the machine has ended"
        except OSError as error:
            if connection.outcome is Outcome.ALLOWED:
                connection.reason = _told(error)
        except Exception as error:
            # A mistake of ours, met by one connection; the others go on, and whoever runs us hears of it.
            connection.fail(f"the gateway failed: {type(error).__name__}")
            asyncio.get_running_loop().call_exception_handler(
                {"message": "A connection of a sandbox was given up", "exception": error}
            )
        finally:
            del self._open[id(connection)]
            self._events.record(connection.event(self._sandbox))

    async def _answer(self, connection: Connection) -> None:
        if connection.name.endswith(OWN_SUFFIX):
            await self._answer_ourselves(connection)
            return
        try:
            reached = await self._decide_and_reach(connection)
        except Denied:
            if not is_told(connection.port):
                await self._outlet.refuse(connection.ask)
                return
            guest = await self._outlet.take(connection.ask)
            await self._deny(connection, guest)
            return
        if reached is None:
            await self._outlet.refuse(connection.ask)
            return
        try:
            guest = await self._outlet.take(connection.ask)
        except BaseException:
            await reached.stream.abort()
            raise
        await self._carry(connection, guest, reached)

    async def _answer_ourselves(self, connection: Connection) -> None:
        """Names that nobody else answers to."""
        if connection.name != proxy.NAME or connection.port != proxy.PORT:
            connection.settle(_unknown(connection.name))
            await self._outlet.refuse(connection.ask)
            return
        guest = await self._outlet.take(connection.ask)
        try:
            await proxy.serve_proxy(connection, guest, self._carry_for_proxy)
        finally:
            await guest.abort()

    async def _carry_for_proxy(
        self,
        connection: Connection,
        guest: ByteStream,
        *,
        rewrite: Rewrite | None = None,
        greeting: bytes = b"",
    ) -> None:
        try:
            reached = await self._decide_and_reach(connection)
        except Denied:
            await explain(guest, connection, self._sandbox, is_read=True)
            return
        if reached is None:
            await explain(guest, connection, self._sandbox, is_read=True, status="502 Bad Gateway")
            return
        await self._carry(connection, guest, reached, rewrite=rewrite, greeting=greeting)

    async def _decide_and_reach(self, connection: Connection) -> Reached | None:
        """None when nobody answers; raises Denied. Either way the connection says why."""
        name, address, port = connection.name, connection.address, connection.port
        connection.settle(self.decide(name, address, port))
        try:
            if not connection.is_allowed:
                raise Denied(self.decide(name, address, port))
            reached = await self._reach(name, address, port, self.decide)
        except Denied as denied:
            connection.settle(denied.decision)
            raise
        except OSError as error:
            connection.fail(_told(error))
            return None
        connection.settle(reached.decision)
        connection.address = reached.address or connection.address
        return reached

    async def _deny(self, connection: Connection, guest: ByteStream) -> None:
        """A program that speaks HTTP without TLS is told why; every other gets a reset."""
        try:
            await explain(guest, connection, self._sandbox)
        finally:
            await guest.abort()

    async def _carry(
        self,
        connection: Connection,
        guest: ByteStream,
        reached: Reached,
        *,
        rewrite: Rewrite | None = None,
        greeting: bytes = b"",
    ) -> None:
        server = reached.stream
        expected = self._expected(connection, reached)
        if reached.forward is not None:
            rewrite = _then(rewrite, partial(in_absolute_form, expected, reached.forward))
        watch = Watch(expected, rewrite=rewrite)
        try:
            if greeting:
                await guest.write(greeting)
            await relay(connection, guest, server, watch)
            await server.close()
            await guest.close()
        except Violation as violation:
            connection.settle(_violated(violation))
            if watch.protocol == "http" and not watch.has_answer:
                await explain(guest, connection, self._sandbox, is_read=True)
        finally:
            await server.abort()
            await guest.abort()

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
        if parse_address(host) is not None:
            return self.decide("", host, port).allowed
        return normal_name(host) is not None and self.decide(host, "", port).allowed


def _then(first: Rewrite | None, second: Rewrite) -> Rewrite:
    if first is None:
        return second

    def both(request: Request) -> Request:
        return second(first(request))

    return both


def _violated(violation: Violation) -> Decision:
    return Decision(allowed=False, rule="names", reason=violation.reason, hint=violation.hint)


def _unknown(name: str) -> Decision:
    return Decision(allowed=False, rule="names", reason=f"nobody answers to `{name}`")


def _told(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "nobody answered in time"
    return error.strerror or str(error) or type(error).__name__
