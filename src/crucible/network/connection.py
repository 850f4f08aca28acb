"""One connection of a sandbox, from the ask to the event, and the two-way copying between."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from crucible.network.events import Event, Outcome, advice
from crucible.network.names import normal_name, shown
from crucible.network.outlet import Ask, ByteStream
from crucible.network.policy import Decision
from crucible.network.violation import Violation
from crucible.network.watch import Watch

HEAD_S: Final = 30.0
ANSWER_S: Final = 300.0
QUIET_S: Final = 2.0


@dataclass(slots=True, kw_only=True)
class Connection:
    """What is known of it. `address` is what a program dialled, and later what the host dialled for it."""

    ask: Ask
    name: str
    address: str
    port: int
    started: float = field(default_factory=time.time)
    began: float = field(default_factory=time.monotonic)
    active: float = field(default_factory=time.monotonic)
    decision: Decision | None = None
    outcome: Outcome = Outcome.FAILED
    rule: str = ""
    reason: str = ""
    hint: str = ""
    protocol: str = ""
    bytes_up: int = 0
    bytes_down: int = 0
    task: asyncio.Task[None] | None = None
    is_ending: bool = False
    is_told: bool = False

    @classmethod
    def of(cls, ask: Ask) -> Connection:
        """For a name, the address of an ask means nothing outside the machine."""
        return cls(
            ask=ask,
            name=normal_name(ask.name) or ask.name,
            address="" if ask.name else ask.address,
            port=ask.port,
        )

    @property
    def host(self) -> str:
        return self.name or self.address

    @property
    def is_allowed(self) -> bool:
        return self.outcome is Outcome.ALLOWED

    def settle(self, decision: Decision) -> None:
        self.decision = decision
        self.outcome = Outcome.ALLOWED if decision.allowed else Outcome.DENIED
        self.rule, self.reason, self.hint = decision.rule, decision.reason, decision.hint

    def fail(self, reason: str) -> None:
        self.outcome, self.reason = Outcome.FAILED, reason

    def end(self, outcome: Outcome, reason: str) -> None:
        """From outside: stops its work, which resets both sides."""
        self.is_ending = True
        self.outcome, self.reason = outcome, reason
        if self.task is not None:
            self.task.cancel()

    def event(self, sandbox: str) -> Event:
        return Event(
            time=self.started,
            outcome=self.outcome,
            name=shown(self.name),
            address=shown(self.address),
            port=self.port,
            rule=self.rule,
            reason=self.reason,
            hint=advice(sandbox, self.hint),
            protocol=self.protocol,
            bytes_up=self.bytes_up,
            bytes_down=self.bytes_down,
            duration_s=max(0.0, time.monotonic() - self.began),
        )


async def relay(
    connection: Connection,
    guest: ByteStream,
    server: ByteStream,
    watch: Watch,
    *,
    can_half_close: bool = True,
) -> None:
    """Copies both ways until both have ended. Raises Violation, and OSError when a side was reset.

    Without `can_half_close`, the server would take the end of what it is sent for the end of everything, so it is
    told only when it seems to have answered.
    """
    both = _Relay(connection, guest, server, watch)
    up, down = asyncio.create_task(both.up(can_half_close)), asyncio.create_task(both.down())
    tasks = {up, down}
    try:
        while tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if down in done and both.has_heard_all:
                return
    finally:
        connection.protocol = watch.protocol
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


class _Relay:
    def __init__(
        self, connection: Connection, guest: ByteStream, server: ByteStream, watch: Watch
    ) -> None:
        self._connection = connection
        self._guest = guest
        self._server = server
        self._watch = watch
        self._writing = asyncio.Lock()
        self._last_up = self._last_down = time.monotonic()
        self.has_heard_all = False

    async def up(self, can_half_close: bool) -> None:
        while data := await self._read_guest():
            async with self._writing:
                await self._send(self._watch.up(data))
        self.has_heard_all = True
        self._watch.end()
        if not can_half_close and self._watch.protocol == "http":
            await self._linger()
        async with self._writing:
            await self._server.close_write()

    async def down(self) -> None:
        connection, watch = self._connection, self._watch
        while data := await self._server.read():
            connection.active = self._last_down = time.monotonic()
            # The lock is taken only for what an answer releases: a server that is not read from may not read.
            if released := watch.down(data):
                async with self._writing:
                    await self._send(released)
            await self._guest.write(data)
            connection.bytes_down += len(data)
        await self._guest.close_write()

    async def _send(self, passed: bytes) -> None:
        if passed:
            await self._server.write(passed)
            self._last_up = time.monotonic()
            self._connection.bytes_up += len(passed)

    async def _linger(self) -> None:
        last = time.monotonic() + ANSWER_S
        while time.monotonic() < last:
            quiet = time.monotonic() - self._last_down
            if self._last_down > self._last_up and quiet > QUIET_S:
                return
            await asyncio.sleep(QUIET_S / 4)

    async def _read_guest(self) -> bytes:
        if not self._watch.is_waiting:
            data = await self._guest.read()
        else:
            data = await self._read_rest()
        self._connection.active = time.monotonic()
        return data

    async def _read_rest(self) -> bytes:
        try:
            async with asyncio.timeout(HEAD_S):
                return await self._guest.read()
        except TimeoutError:
            raise Violation(f"the rest of a head did not come within {HEAD_S:g} s") from None
