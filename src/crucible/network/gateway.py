"""A sandbox's way out: takes or refuses what the machine asks for, keeps count of it, and tells of it.

There is one for each sandbox with a network. Its policy can be replaced while it runs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crucible.errors import SandboxError
from crucible.network import addresses, proxy
from crucible.network.addresses import Classifier
from crucible.network.carrier import Carrier, refusal, told
from crucible.network.connection import Connection
from crucible.network.events import EventSink, Folding, Outcome
from crucible.network.names import OWN_SUFFIX
from crucible.network.outlet import Outlet
from crucible.network.policy import Decision, Policy
from crucible.network.providers import provider_at
from crucible.network.proxies import Proxies
from crucible.network.reach import Denied, Reach
from crucible.network.refusal import is_told
from crucible.network.secrets import Secrets

if TYPE_CHECKING:
    import ssl

    from crucible.network.authority import Authority
    from crucible.network.metering import Meter

SWEEP_S: Final = 15.0
CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    connections: int = 256
    idle_s: float = 3600.0


class Gateway:
    """`run` serves until it is cancelled or the machine has ended; then it raises what the outlet raised.

    Without a `reach`, the host's own resolver and proxy settings are used; without a `trust`, servers are verified as
    the host's programs do. `authority` is needed for secrets bound to other hosts than model providers. `meter` is
    asked about every call of a model; without one they are not counted.
    """

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
        secrets: Secrets | None = None,
        authority: Authority | None = None,
        trust: Callable[[], ssl.SSLContext] | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._outlet = outlet
        self._policy = policy
        self._events = Folding(events)
        self._sandbox = sandbox
        self._limits = limits or Limits()
        self._classify = classify
        self._carrier = Carrier(
            decide=self.decide,
            reach=reach or Reach(proxies=Proxies.of(os.environ)),
            sandbox=sandbox,
            secrets=secrets or Secrets(),
            authority=authority,
            trust=trust,
            tell=self._tell,
            meter=meter,
        )
        self._open: dict[int, Connection] = {}

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        """Connections that the new policy does not allow are cut at once."""
        self._policy = policy
        for connection in list(self._open.values()):
            if not connection.is_allowed:
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
            if connection.is_allowed:
                connection.reason = told(error)
        except Exception as error:
            # A mistake of ours, met by one connection; the others go on, and whoever runs us hears of it.
            connection.fail(f"the gateway failed: {type(error).__name__}")
            asyncio.get_running_loop().call_exception_handler(
                {"message": "A connection of a sandbox was given up", "exception": error}
            )
        finally:
            del self._open[id(connection)]
            self._tell(connection)

    def _tell(self, connection: Connection) -> None:
        """Once. A refusal is told before the program can see it: whoever waits for that program is to hear of it."""
        if not connection.is_told:
            connection.is_told = True
            self._events.record(connection.event(self._sandbox))

    async def _answer(self, connection: Connection) -> None:
        if connection.name.endswith(OWN_SUFFIX):
            await self._answer_ourselves(connection)
            return
        try:
            reached = await self._carrier.reach(connection)
        except Denied:
            await self._deny(connection)
            return
        if reached is None:
            self._tell(connection)
            await self._outlet.refuse(connection.ask)
            return
        try:
            guest = await self._outlet.take(connection.ask)
        except BaseException:
            await reached.stream.abort()
            raise
        await self._carrier.carry(connection, guest, reached)

    async def _deny(self, connection: Connection) -> None:
        """A program that speaks HTTP without TLS is told why; every other gets a reset."""
        if not is_told(connection.port):
            self._tell(connection)
            await self._outlet.refuse(connection.ask)
            return
        guest = await self._outlet.take(connection.ask)
        try:
            await self._carrier.explain(connection, guest)
        finally:
            await guest.abort()

    async def _answer_ourselves(self, connection: Connection) -> None:
        """Names that nobody outside answers to."""
        provider = provider_at(connection.name) if connection.port == 80 else None
        is_proxy = (connection.name, connection.port) == (proxy.NAME, proxy.PORT)
        if provider is None and not is_proxy:
            connection.settle(refusal(f"nobody answers to `{connection.name}`"))
            self._tell(connection)
            await self._outlet.refuse(connection.ask)
            return
        guest = await self._outlet.take(connection.ask)
        try:
            if provider is not None:
                await self._carrier.carry_for_provider(connection, guest, provider)
            else:
                await proxy.serve_proxy(connection, guest, self._carrier.carry_by_proxy)
        finally:
            await guest.abort()
