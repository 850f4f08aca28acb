"""Disks that are frozen again and again: short, whole, sealed, and shared without harm."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from tests.conftest import SMALL, Run
from tests.vm.conftest import shell
from tests.vm.test_jail import digests

from crucible.backends.qemu import disks, jail
from crucible.backends.qemu.disks import find_chain
from crucible.backends.qemu.layers import LiveDisk
from crucible.backends.qemu.machine import QemuMachine
from crucible.backends.qemu.qmp import Monitor
from crucible.errors import DiskTooDeep
from crucible.sandbox.holding import Held, handle_of
from crucible.sandbox.manager import Manager
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.takeover import take_over
from crucible.system import require

pytestmark = pytest.mark.vm

FREEZES = 40
KEPT = (1, 20, 40)
# So slow that it does not end while a test looks.
BYTES_A_SECOND = 1


@pytest.fixture(scope="module")
def module_home(small_home: Path) -> Path:
    return small_home


def machine_of(held: Held) -> QemuMachine:
    return cast(QemuMachine, held.machine)


def monitor_of(held: Held) -> Monitor:
    return machine_of(held)._vmm.monitor


def process_of(held: Held) -> Path:
    return Path("/proc", str(held.machine.handle.pid))


def writable_layers(held: Held) -> set[str]:
    """The names of the disk's files that the VMM has open for writing, removed ones too."""
    process = process_of(held)
    found = set()
    for entry in (process / "fd").iterdir():
        try:
            info = (process / "fdinfo" / entry.name).read_text()
            name = entry.readlink().name
        except FileNotFoundError:
            continue  # closed since
        flags = int(info.split("flags:")[1].split()[0], 8)
        if name.startswith("disk-") and flags & os.O_ACCMODE != os.O_RDONLY:
            found.add(name)
    return found


def open_layers(held: Held) -> set[str]:
    found = set()
    for entry in (process_of(held) / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(entry.readlink().name)
    return {name for name in found if name.startswith("disk-")}


def is_in_order(held: Held) -> bool:
    """The VMM holds the layers that are there and no other, and can write to the top only."""
    layers = find_chain(held.record.directory).layers
    return open_layers(held) == {layer.name for layer in layers} and writable_layers(held) == {
        layers[-1].name
    }


@asynccontextmanager
async def sandbox(manager: Manager, name: str = "box") -> AsyncIterator[Held]:
    await manager.create(name, SMALL)
    await manager.start(name)
    try:
        yield manager.running(name)
    finally:
        await manager.remove(name, force=True)


async def freeze(held: Held) -> None:
    """What a snapshot does to its sandbox, without the snapshot."""
    stream = held.record.directory / "stream"
    try:
        await machine_of(held).freeze_into(stream)
    finally:
        stream.unlink(missing_ok=True)


async def push_layer(held: Held) -> None:
    """What a snapshot does to the disk, without the memory."""
    disk, monitor = machine_of(held)._disk, monitor_of(held)
    await disk.tidy()
    await disk.merge_if_long()
    await monitor.execute("stop")
    await disk.push()
    await monitor.execute("cont")
    await disk.tidy()


async def write_layers(held: Held, count: int, *, bytes_each: int = 300_000) -> None:
    """As many more layers, with a file in each."""
    for number in range(count):
        await shell(held, f"head -c {bytes_each} /dev/urandom > /workspace/layer-{number}; sync")
        await push_layer(held)


async def sums(held: Held) -> bytes:
    done = await shell(held, "cd /workspace && sha256sum *", user="root")
    assert done.exit.status == 0, done
    return done.output


class History(NamedTuple):
    """What was seen while a sandbox's disk was frozen forty times, something written before each."""

    lengths: list[int]
    descriptors: list[int]
    writable: list[set[str]]
    shared_before: Mapping[str, str]
    sums_at: Mapping[int, bytes]
    held: Held


@pytest.fixture(scope="module")
def history(manager: Manager, module_home: Path, run: Run) -> Iterator[History]:
    async def live() -> History:
        held = await begin()
        seen = History([], [], [], {}, {}, held)
        before: dict[str, str] = digests(shared_files(module_home))
        at: dict[int, bytes] = {}
        for number in range(1, FREEZES + 1):
            # The same file is written over and over, too, and another one is removed again.
            await shell(
                held,
                f"head -c 200000 /dev/urandom > /workspace/file-{number}; rm -f /workspace/gone-*;"
                f" echo {number} > /workspace/gone-{number}; echo {number} >> /workspace/all; sync",
            )
            if number in KEPT:
                at[number] = await sums(held)
                await Snapshots(manager).take("much-copied", f"moment-{number}")
                before |= digests(shared_files(module_home, at=number))
            elif number % 10 == 0:
                await freeze(held)
            else:
                await push_layer(held)
            seen.lengths.append(len(find_chain(held.record.directory).layers))
            seen.descriptors.append(len(list(process_of(held).joinpath("fd").iterdir())))
            seen.writable.append(writable_layers(held))
        return seen._replace(shared_before=before, sums_at=at)

    async def begin() -> Held:
        await manager.create("much-copied", SMALL)
        await manager.start("much-copied")
        return manager.running("much-copied")

    def shared_files(home: Path, *, at: int = 0) -> list[Path]:
        if at:
            place = manager.records.find_snapshot(f"moment-{at}").directory
            return sorted(place.glob("disk-*"))
        return sorted([*(home / "templates").rglob("disk-*"), *(home / "blanks").iterdir()])

    yield run(live())

    async def end() -> None:
        await manager.remove("much-copied", force=True)
        for number in KEPT:
            await Snapshots(manager).remove(f"moment-{number}")

    run(end())


def test_the_disk_of_a_sandbox_that_is_copied_again_and_again_stays_short(history: History) -> None:
    assert len(history.lengths) == FREEZES
    assert max(history.lengths) == disks.LONGEST_CHAIN + 1
    assert max(history.descriptors) < 64


def test_of_frozen_layers_none_can_be_written_by_the_machine_they_came_from(
    history: History,
) -> None:
    assert all(len(names) == 1 for names in history.writable)
    assert history.writable[-1] == {find_chain(history.held.record.directory).top.name}
    assert is_in_order(history.held)


def test_merging_changes_no_layer_that_somebody_else_has(history: History) -> None:
    paths = [Path(path) for path in history.shared_before]
    assert len([path for path in paths if "snapshots" in path.parts]) > 20
    assert digests(paths) == history.shared_before


async def test_nothing_is_lost_in_forty_layers(history: History) -> None:
    assert await sums(history.held) == history.sums_at[FREEZES]
    lines = (await shell(history.held, "cat /workspace/all")).output.split()
    assert lines == [b"%d" % number for number in range(1, FREEZES + 1)]


@pytest.mark.parametrize("number", KEPT)
async def test_a_snapshot_of_long_ago_has_what_was_there_then(
    manager: Manager, history: History, number: int
) -> None:
    copy = await Snapshots(manager).restore(f"moment-{number}", "copy")
    try:
        assert await sums(copy) == history.sums_at[number]
        assert len(find_chain(copy.record.directory).layers) <= disks.LONGEST_CHAIN + 1
    finally:
        await manager.remove("copy", force=True)


async def test_copies_of_copies_have_short_disks_too(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "LONGEST_CHAIN", 3)
    async with sandbox(manager, "copy-0") as held:
        for generation in (1, 2):
            await shell(held, f"echo {generation} >> /workspace/line")
            (copy,) = await Snapshots(manager).fork(held.record.name, [f"copy-{generation}"])
            if generation > 1:
                await manager.remove(held.record.name, force=True)
            held = copy
            assert len(find_chain(held.record.directory).layers) <= 4
        assert (await shell(held, "cat /workspace/line")).output == b"1\n2\n"
        await manager.remove(held.record.name, force=True)


async def test_a_merged_disk_is_sound_and_starts_again(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "LONGEST_CHAIN", 3)
    async with sandbox(manager) as held:
        await write_layers(held, 4)
        before = await sums(held)
        stopped = await manager.stop("box")
        layers = find_chain(stopped.directory).layers
        assert len(layers) <= 4
        for layer in layers[1:]:
            words = [*require("qemu-img"), "check", "-q", "-f", "qcow2", str(layer)]
            await asyncio.to_thread(subprocess.run, words, check=True)
        await manager.start("box")
        again = manager.running("box")
        assert await sums(again) == before
        names = [layer.name for layer in find_chain(stopped.directory).layers]
        assert names == ["disk-0.raw", *(f"disk-{n}.qcow2" for n in range(1, len(names)))]
        await write_layers(again, 2)
        assert is_in_order(again)


# A count that is on the disk before it is in memory, and never half of it.
WRITER = """
import os
on_disk, in_memory = (os.open(path, os.O_RDWR | os.O_CREAT) for path in ("/workspace/n", "/dev/shm/n"))
for count in range(10 ** 7):
    os.pwrite(on_disk, b"%08d " % count, 0)
    os.fsync(on_disk)
    os.pwrite(in_memory, b"%08d " % count, 0)
"""
STOP_WRITER = """
read pid < /tmp/writer; kill -9 $pid
while kill -0 $pid 2>/dev/null; do sleep 0.01; done
cat /workspace/n /dev/shm/n
"""


async def test_disk_and_memory_stay_one_moment_while_layers_are_merged_beneath_a_writer(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "LONGEST_CHAIN", 3)
    async with sandbox(manager) as held:
        await write_layers(held, 1)
        await shell(held, f"nohup python3 -c '{WRITER}' > /dev/null 2>&1 & echo $! > /tmp/writer")
        await shell(held, "while ! [ -s /dev/shm/n ]; do sleep 0.05; done")
        merged = len(find_chain(held.record.directory).layers)
        await Snapshots(manager).take("box", "writing")
        assert len(find_chain(held.record.directory).layers) <= merged
        copy = await Snapshots(manager).restore("writing", "copy")
        for one in (copy, held):
            on_disk, in_memory = map(int, (await shell(one, STOP_WRITER)).output.split())
            assert on_disk - in_memory in (0, 1)
        await manager.remove("copy", force=True)
        await Snapshots(manager).remove("writing")


class SlowMonitor:
    """The same line to QEMU, but a merge that is asked for over it does not end by itself."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    async def execute(
        self, command: str, arguments: Mapping[str, Any] | None = None, **rest: Any
    ) -> Any:
        if command == "block-stream":
            arguments = {**(arguments or {}), "speed": BYTES_A_SECOND}
        return await self._monitor.execute(command, arguments, **rest)


@asynccontextmanager
async def merging(held: Held) -> AsyncIterator[asyncio.Task[None]]:
    """With a merge under way."""
    disk = dataclasses.replace(
        machine_of(held)._disk, monitor=cast(Monitor, SlowMonitor(monitor_of(held)))
    )
    task = asyncio.create_task(disk.merge_if_long())
    while not await monitor_of(held).execute("query-jobs"):
        assert not task.done()
        await asyncio.sleep(0.01)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of five layers is too long."""
    monkeypatch.setattr(disks, "LONGEST_CHAIN", 4)


@pytest.mark.usefixtures("short")
async def test_a_merge_that_is_given_up_leaves_the_disk_as_it_was(manager: Manager) -> None:
    async with sandbox(manager) as held:
        await write_layers(held, 2)
        before, layers = await sums(held), find_chain(held.record.directory)
        async with merging(held) as task:
            await shell(held, "echo meanwhile > /workspace/meanwhile; sync")
            task.cancel()
            await asyncio.wait({task})
        assert not await monitor_of(held).execute("query-jobs")
        assert find_chain(held.record.directory) == layers
        await freeze(held)
        assert len(find_chain(held.record.directory).layers) < len(layers.layers) + 1
        assert (await shell(held, "cat /workspace/meanwhile")).output == b"meanwhile\n"
        await shell(held, "rm /workspace/meanwhile")
        assert await sums(held) == before


async def kill(held: Held) -> None:
    os.kill(held.machine.handle.pid, signal.SIGKILL)
    assert held.watcher is not None
    await held.watcher


@pytest.mark.usefixtures("short")
async def test_a_machine_that_is_killed_during_a_merge_or_after_it_starts_again_with_all_its_data(
    manager: Manager,
) -> None:
    async with sandbox(manager) as held:
        await write_layers(held, 2)
        await shell(held, "echo last > /workspace/last; sync")
        before = await sums(held)
        async with merging(held):
            await kill(held)
        await manager.start("box")
        again = manager.running("box")
        assert await sums(again) == before
        layers = len(find_chain(again.record.directory).layers)
        await machine_of(again)._disk.merge_if_long()
        assert len(find_chain(again.record.directory).layers) < layers
        await kill(again)
        await manager.start("box")
        assert await sums(manager.running("box")) == before


@pytest.mark.usefixtures("short")
async def test_whoever_takes_a_machine_over_ends_the_merge_that_was_under_way(
    manager: Manager,
) -> None:
    async with sandbox(manager) as held:
        await write_layers(held, 2)
        before = await sums(held)
        async with merging(held):
            await manager.hands.let_all_go()
        record = manager.records.find("box")
        assert handle_of(record) is not None
        await take_over(manager, record)
        taken = manager.running("box")
        assert not await monitor_of(taken).execute("query-jobs")
        assert await sums(taken) == before
        await freeze(taken)
        assert is_in_order(taken)
        assert await sums(taken) == before


@pytest.mark.usefixtures("short")
async def test_a_merge_that_cannot_be_written_leaves_the_disk_working(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the host's disk fills up: the VMM cannot make a file that holds two layers."""
    spawn = jail.spawn

    def limited(cage: jail.Cage, *args: Any, **rest: Any) -> subprocess.Popen[bytes]:
        return spawn(dataclasses.replace(cage, max_file_bytes=12 << 20), *args, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(jail, "spawn", limited)
        await manager.create("box", SMALL)
        await manager.start("box")
    try:
        held = manager.running("box")
        await write_layers(held, 2, bytes_each=8_000_000)
        before, chain = await sums(held), find_chain(held.record.directory)
        for _ in range(2):
            await machine_of(held)._disk.merge_if_long()
            assert find_chain(held.record.directory) == chain
        assert not await monitor_of(held).execute("query-jobs")
        assert await sums(held) == before
        await manager.stop("box")
        await manager.start("box")
        again = manager.running("box")
        assert await sums(again) == before
        await machine_of(again)._disk.merge_if_long()
        assert len(find_chain(again.record.directory).layers) < len(chain.layers)
        assert await sums(again) == before
    finally:
        await manager.remove("box", force=True)


@pytest.mark.usefixtures("short")
async def test_a_merge_that_would_not_fit_on_the_host_is_left_out_until_there_is_no_other_way(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sandbox(manager) as held:
        await write_layers(held, 2)
        before, chain = await sums(held), find_chain(held.record.directory)
        with monkeypatch.context() as patch:
            usage = shutil.disk_usage("/")
            patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=200 << 20))
            await freeze(held)
            longer = find_chain(held.record.directory)
            assert len(longer.layers) == len(chain.layers) + 1
            patch.setattr(disks, "MOST_LAYERS", len(longer.layers))
            with pytest.raises(DiskTooDeep, match="200 MiB are free"):
                await freeze(held)
            assert find_chain(held.record.directory) == longer
        assert await sums(held) == before
        await freeze(held)
        assert len(find_chain(held.record.directory).layers) < len(longer.layers)
        assert await sums(held) == before


async def test_a_layer_whose_sealing_was_cut_short_is_sealed_by_whoever_takes_over(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(self: LiveDisk) -> None: ...

    async with sandbox(manager) as held:
        with monkeypatch.context() as patch:
            patch.setattr(LiveDisk, "tidy", nothing)
            await freeze(held)
        assert len(writable_layers(held)) == 2
        await manager.hands.let_all_go()
        await take_over(manager, manager.records.find("box"))
        assert is_in_order(manager.running("box"))
