"""When a sandbox's time is over it is killed or paused, as its client asked."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Literal

from crucible.errors import CrucibleError
from crucible.sandbox.records import SandboxRecord
from crucible.server.domain import Domain
from crucible.server.wires.e2b.facts import Facts, facts_of, is_known, keep
from crucible.values import replace


class Lifetimes:
    """A kill is the sandbox's own age limit, which the owner keeps; a pause is kept here, by one timer each."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._timers: dict[str, asyncio.Task[None]] = {}

    def set(
        self,
        record: SandboxRecord,
        seconds: float,
        on_timeout: Literal["kill", "pause"] | None = None,
    ) -> Facts:
        """So much longer from now on. 0 seconds are over at once."""
        facts = facts_of(record)
        how = on_timeout or facts.on_timeout
        facts = replace(facts, end_at=time.time() + seconds, on_timeout=how)
        keep(record, facts)
        age_s = time.time() - record.created_at
        ttl_s = max(0.001, age_s + seconds) if how == "kill" else 0.0
        self._limit_age(record, ttl_s)
        self._stop(record)
        if how == "pause":
            self._timers[record.id] = asyncio.create_task(self._pause_at(record, facts.end_at))
        return facts

    def suspend(self, record: SandboxRecord) -> None:
        """What is paused stays until somebody wants it again."""
        self._stop(record)
        self._limit_age(record, 0.0)

    def watch_all(self) -> None:
        """After a restart of this program the timers are set again; what is overdue is paused at once."""
        for record in self._domain.manager.records.sandboxes():
            if record.is_temporary or record.state != "running" or not is_known(record):
                continue
            facts = facts_of(record)
            if facts.on_timeout == "pause" and facts.end_at:
                self._timers[record.id] = asyncio.create_task(self._pause_at(record, facts.end_at))

    def _limit_age(self, record: SandboxRecord, ttl_s: float) -> None:
        manager = self._domain.manager
        spec = replace(manager.records.find(record.name).spec, ttl_s=ttl_s)
        changed = manager.records.change_spec(record.id, spec)
        if (held := manager.held.get(record.id)) is not None:
            held.record = changed

    def _stop(self, record: SandboxRecord) -> None:
        timer = self._timers.pop(record.id, None)
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()

    async def _pause_at(self, record: SandboxRecord, end_at: float) -> None:
        await asyncio.sleep(max(0.0, end_at - time.time()))
        with contextlib.suppress(CrucibleError):
            self.suspend(record)
            await self._domain.manager.pause(record.name)
