"""Moments of a session's sandbox that can be gone back to: snapshots of it, known by their sandbox's name."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from pathlib import Path

from crucible.agent.places.opening import PREFIX, SandboxRoom, Wanted
from crucible.agent.workplace import Checkpoint
from crucible.errors import SandboxMissing, SnapshotMissing
from crucible.sandbox.finishing import finish
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import SandboxRecord, SnapshotRecord


class Checkpoints:
    """Nothing is remembered here: they are read from the records each time, so whoever comes next finds them."""

    def __init__(self, room: SandboxRoom, name: str, wanted: Wanted) -> None:
        self._room = room
        self._name = name
        self._wanted = wanted

    async def take(self) -> Checkpoint:
        began = time.perf_counter()
        record = await self._room.snapshots.take(self._name, f"{PREFIX}{secrets.token_hex(8)}")
        duration_s = time.perf_counter() - began
        await self.trim()
        return await _described(record, duration_s)

    async def trim(self) -> None:
        """Forgets the oldest of those that are too many."""
        for old in self._records()[: -max(1, self._wanted.checkpoints)]:
            await self._room.snapshots.remove(old.tag)

    async def all(self) -> tuple[Checkpoint, ...]:
        return tuple([await _described(record) for record in self._records()])

    async def restore(self, checkpoint: str) -> Held:
        """The sandbox as it was then. The one of now goes when that stands, and stays if it cannot."""
        record, manager = self._find(checkpoint), self._room.manager
        await put_back(manager, self._name)
        aside = aside_of(self._name)
        old = None
        with contextlib.suppress(SandboxMissing):
            old = await manager.rename(self._name, aside)
        try:
            held = await self._start(record, self._name, old)
        except BaseException:
            await finish(put_back(manager, self._name))
            raise
        if old is not None:
            await manager.remove(aside, force=True)
        return held

    async def copy(self, checkpoint: str, name: str) -> Held:
        """Another sandbox, of that name, as this one was then."""
        try:
            like = self._room.manager.find(self._name)
        except SandboxMissing:
            like = None
        return await self._start(self._find(checkpoint), name, like)

    async def _start(self, record: SnapshotRecord, name: str, like: SandboxRecord | None) -> Held:
        held = await self._room.snapshots.restore(record.tag, name, like=like)
        await self._room.executions.take_over(held)
        if self._wanted.secrets:
            # A sandbox that runs learns the values that it is given.
            await self._room.manager.start(name, secrets=self._wanted.secrets)
        return held

    async def forget(self, checkpoint: str) -> None:
        """One that is gone already is no error: what is kept longest goes by itself."""
        with contextlib.suppress(SnapshotMissing):
            await self._room.snapshots.remove(self._find(checkpoint).tag)

    async def forget_all(self) -> None:
        for record in self._records():
            with contextlib.suppress(SnapshotMissing):
                await self._room.snapshots.remove(record.tag)

    def _find(self, checkpoint: str) -> SnapshotRecord:
        """Only those of this session: a snapshot of somebody else is none."""
        for record in self._records():
            if record.tag == checkpoint:
                return record
        raise SnapshotMissing(checkpoint[:80])

    def _records(self) -> list[SnapshotRecord]:
        mine = [
            record
            for record in self._room.manager.records.snapshots()
            if record.sandbox_name == self._name
            and record.tag.startswith(PREFIX)
            and record.state == "saved"
        ]
        return sorted(mine, key=lambda record: record.created_at)


def aside_of(name: str) -> str:
    """What a sandbox is called while another is made in its place."""
    return f"{name}-before"


async def put_back(manager: Manager, name: str) -> None:
    """Undoes a rewind that was cut off: the sandbox from before has its name again."""
    aside = aside_of(name)
    try:
        manager.find(aside)
    except SandboxMissing:
        return
    with contextlib.suppress(SandboxMissing):
        await manager.remove(name, force=True)
    await manager.rename(aside, name)


async def _described(record: SnapshotRecord, duration_s: float = 0.0) -> Checkpoint:
    return Checkpoint(
        id=record.tag,
        taken_at=record.created_at,
        bytes=await asyncio.to_thread(_bytes_in, record.directory),
        duration_s=duration_s,
    )


def _bytes_in(directory: Path) -> int:
    """What it takes on the disk, not what it would if it had no holes."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total
