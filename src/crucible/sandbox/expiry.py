"""Sandboxes that nobody uses are stopped, and those whose time is over are removed, as their limits say."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback

from crucible.errors import CrucibleError
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import SandboxRecord

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


def _remaining_s(manager: Manager, record: SandboxRecord) -> float:
    remaining = LONGEST_WAIT_S
    if record.spec.ttl_s:
        remaining = record.created_at + record.spec.ttl_s - time.time()
    held = manager.held.get(record.id)
    if held is not None and record.spec.idle_timeout_s and record.state == "running":
        remaining = min(remaining, record.spec.idle_timeout_s - held.idle_s())
    return remaining


async def _end(manager: Manager, record: SandboxRecord) -> None:
    limit = record.spec.ttl_s
    if limit and record.created_at + limit <= time.time():
        manager.records.write_audit(
            "expire", record.name, {"limit": {"name": "ttl", "value": f"{limit:g} s"}}
        )
        await manager.remove(record.name, force=True)
        return
    limit = record.spec.idle_timeout_s
    manager.records.write_audit(
        "expire", record.name, {"limit": {"name": "idle", "value": f"{limit:g} s"}}
    )
    await manager.stop(record.name)
    manager.records.update(
        record.id, note=f"stopped: nothing was done in it for {limit:g} s, its idle timeout"
    )
