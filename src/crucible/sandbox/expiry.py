"""Sandboxes that nobody uses are stopped, and those whose time is over are removed, as their limits say."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import Callable

from crucible.errors import BadSetting, CrucibleError
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import SandboxRecord
from crucible.values import replace

LONGEST_WAIT_S = 2.0
_SHORTEST_WAIT_S = 0.2


class Expiry:
    """`is_busy` while it stops or removes something: that must not be left halfway."""

    def __init__(self, manager: Manager) -> None:
        self.is_busy = False
        self._manager = manager

    async def run(self) -> None:
        while True:
            try:
                await asyncio.sleep(await self.expire())
            except Exception:
                traceback.print_exc()  # to the owner's log; it will be tried again
                await asyncio.sleep(LONGEST_WAIT_S)

    async def expire(self) -> float:
        """Ends what is due and gives the time until the next may be."""
        wait = LONGEST_WAIT_S
        for record in self._manager.records.sandboxes():
            if record.is_temporary:
                continue
            remaining = _remaining_s(self._manager, record)
            if remaining > 0:
                wait = min(wait, remaining)
                continue
            self.is_busy = True
            try:
                with contextlib.suppress(CrucibleError):
                    await _end(self._manager, record)
            finally:
                self.is_busy = False
        return max(wait, _SHORTEST_WAIT_S)


def expires_at(record: SandboxRecord) -> float | None:
    """When it is removed, running or not."""
    return record.created_at + record.spec.ttl_s if record.spec.ttl_s else None


async def live_until(manager: Manager, name: str, at: Callable[[float], float]) -> SandboxRecord:
    """Changes when a sandbox is removed. `at` is given when it would have been, or now if never."""
    async with manager.hands.lock(name):
        record = manager.find(name)
        now = time.time()
        wanted = at(expires_at(record) or now)
        if wanted <= now:
            raise BadSetting(
                "A sandbox cannot be removed in the past", hint="Remove it, or give a later time"
            )
        return _with_ttl(manager, record, wanted - record.created_at)


async def live_on(manager: Manager, name: str) -> SandboxRecord:
    """It is not removed by itself any more."""
    async with manager.hands.lock(name):
        return _with_ttl(manager, manager.find(name), 0.0)


def _with_ttl(manager: Manager, record: SandboxRecord, ttl_s: float) -> SandboxRecord:
    record = manager.records.change_spec(record.id, replace(record.spec, ttl_s=ttl_s))
    held = manager.held.get(record.id)
    if held is not None:
        held.record = record
    return record


def _remaining_s(manager: Manager, record: SandboxRecord) -> float:
    end = expires_at(record)
    remaining = LONGEST_WAIT_S if end is None else end - time.time()
    held = manager.held.get(record.id)
    if held is not None and record.spec.idle_timeout_s and record.state == "running":
        remaining = min(remaining, record.spec.idle_timeout_s - held.idle_s())
    return remaining


async def _end(manager: Manager, record: SandboxRecord) -> None:
    limit = record.spec.ttl_s
    end = expires_at(record)
    if end is not None and end <= time.time():
        _tell(manager, record, "ttl", f"{limit:g} s")
        await manager.remove(record.name, force=True)
        return
    limit = record.spec.idle_timeout_s
    _tell(manager, record, "idle", f"{limit:g} s")
    note = f"stopped: nothing was done in it for {limit:g} s, its idle timeout"
    await manager.stop(record.name, note=note)


def _tell(manager: Manager, record: SandboxRecord, name: str, value: str) -> None:
    told = {"limit": {"name": name, "value": value}}
    manager.records.write_audit("expire", record.name, told, owner=record.owner)
