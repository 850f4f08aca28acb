"""Disks of named sandboxes: kept, grown, frozen under copies, and never believed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import struct
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.vm.conftest import shell

from crucible.backends.qemu.disks import find_chain
from crucible.errors import StateDamaged
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.spec import SandboxSpec
from crucible.system import require

pytestmark = pytest.mark.vm

# Feature bits of qcow2 that make its reader open or need something else.
EXTERNAL_DATA = 1 << 2


@asynccontextmanager
async def stopped_sandbox(manager: Manager) -> AsyncIterator[SandboxRecord]:
    """A sandbox that ran once, wrote something and was stopped."""
    await manager.create("box", SandboxSpec())
    await manager.start("box")
    await shell(manager.running("box"), "echo kept > /workspace/note")
    try:
        yield await manager.stop("box", grace_s=1)
    finally:
        await manager.remove("box", force=True)


def patch_header(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


async def test_a_kept_disk_grows_when_more_is_asked_for(manager: Manager) -> None:
    async with stopped_sandbox(manager) as record:
        larger = dataclasses.replace(record.spec, disk_mib=12288)
        facts = dataclasses.asdict(larger) | {"environment": {}}
        manager.records.update(record.id, spec=json.dumps(facts))
        await manager.start("box")
        held = manager.running("box")
        assert (await held.machine.stats()).disk_total > 11 << 30
        assert (await shell(held, "cat /workspace/note")).output == b"kept\n"


async def test_a_stopped_disk_is_sound(manager: Manager) -> None:
    async with stopped_sandbox(manager) as record:
        for layer in find_chain(record.directory).layers[1:]:
            words = [*require("qemu-img"), "check", "-q", "-f", "qcow2", str(layer)]
            await asyncio.to_thread(subprocess.run, words, check=True)


async def test_a_disk_whose_header_names_a_file_of_the_host_is_not_opened(
    manager: Manager, tmp_path: Path
) -> None:
    """A VMM that was taken over can write its own disk: it must not reach another file through ours."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"of the host")
    async with stopped_sandbox(manager) as record:
        top = find_chain(record.directory).top
        name = os.fsencode(victim)
        extension = struct.pack(">II", 0x44415441, len(name)) + name.ljust(
            -(-len(name) // 8) * 8, b"\0"
        )
        patch_header(top, 104, extension + bytes(8))
        patch_header(top, 72, struct.pack(">Q", EXTERNAL_DATA))
        patch_header(top, 24, struct.pack(">Q", 1 << 20))
        with pytest.raises(StateDamaged, match="tampered"):
            await manager.start("box")
        assert manager.records.find("box").state == "stopped"
    assert victim.read_bytes() == b"of the host"


@pytest.mark.parametrize("size", [0, 1 << 62, 2**64 - 1])
async def test_a_disk_whose_header_lies_about_its_size_is_not_opened(
    manager: Manager, size: int
) -> None:
    async with stopped_sandbox(manager) as record:
        patch_header(find_chain(record.directory).top, 24, struct.pack(">Q", size))
        with pytest.raises(StateDamaged):
            await manager.start("box")


async def test_what_a_sandbox_writes_after_a_fork_its_fork_does_not_see(manager: Manager) -> None:
    await manager.create("box", SandboxSpec())
    await manager.start("box")
    source = manager.running("box")
    await shell(source, "echo before > /workspace/note; echo same > /workspace/same")
    await Snapshots(manager).fork("box", ["copy"])
    copy = manager.running("copy")
    await shell(source, "echo source > /workspace/note; sync")
    await shell(copy, "cat /workspace/note > /workspace/seen; echo copy > /workspace/note; sync")
    assert (await shell(source, "cat /workspace/note")).output == b"source\n"
    assert (await shell(copy, "cat /workspace/seen /workspace/note")).output == b"before\ncopy\n"
    frozen = {layer.stat().st_ino for layer in find_chain(source.record.directory).layers[:-1]}
    shared = {layer.stat().st_ino for layer in find_chain(copy.record.directory).layers[:-1]}
    assert shared == frozen
    for name in ("box", "copy"):
        await manager.remove(name, force=True)
