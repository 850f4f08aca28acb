"""Work on sandboxes that is given up at every step: what was begun is undone before the giving up is over."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SMALL, Run
from tests.e2e.leftovers import leftovers

from crucible import assemble
from crucible.backends.qemu import disks, jail
from crucible.backends.qemu.qmp import Monitor
from crucible.backends.qemu.vmm import Vmm
from crucible.config import Config
from crucible.errors import NameTaken, SandboxError
from crucible.sandbox.guest.channel import GuestChannel
from crucible.sandbox.machines import copying
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import Records
from crucible.sandbox.session import Command
from crucible.sandbox.snapshots import Snapshots

pytestmark = pytest.mark.vm

Work = Callable[[], Coroutine[Any, Any, object]]
Places = tuple[tuple[object, str], ...]

FEW_PLACES: Places = ((Records, "add"), (Records, "update"), (jail, "spawn"))
MORE_PLACES: Places = ((Monitor, "send"), (GuestChannel, "open"), (disks, "create_layer"))


class Canceller:
    """Counts the calls that change something, and cancels whoever is at work at the chosen one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
        self.count = 0
        self.chosen = 0
        self.task: asyncio.Task[object] | None = None
        for place, name in places:
            monkeypatch.setattr(place, name, self._counted(getattr(place, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **fields: Any) -> Any:
            if self.task is not None and not self.task.cancelling():
                self.count += 1
                if self.count == self.chosen:
                    self.task.cancel()
            return call(*args, **fields)

        return counted

    async def was_cancelled(self, work: Work, chosen: int) -> bool:
        self.count, self.chosen = 0, chosen
        self.task = asyncio.create_task(work())
        try:
            await self.task
        except asyncio.CancelledError:
            return True
        finally:
            self.task = None
        return self.count >= chosen


@pytest.fixture
def canceller(monkeypatch: pytest.MonkeyPatch) -> Canceller:
    return Canceller(monkeypatch, (*FEW_PLACES, *MORE_PLACES))


@pytest.fixture(scope="module")
def manager(small_home: Path, run: Run) -> Iterator[Manager]:
    """With a running sandbox `box` and a snapshot `moment` of it."""
    made = assemble.manager(Config(home=small_home))

    async def prepare() -> None:
        await made.create("box", SMALL)
        await made.start("box")
        await Snapshots(made).take("box", "moment")

    async def clear() -> None:
        await made.remove("box", force=True)
        await Snapshots(made).remove("moment")

    run(prepare())
    yield made
    run(clear())
    made.records.close()


async def says(manager: Manager, name: str) -> bytes:
    machine = manager.running(name).machine
    return (await machine.run(Command(argv=[b"echo", b"here"]))).output


async def each_step(canceller: Canceller, work: Work) -> AsyncIterator[int]:
    """Gives the work up at its first step, at its second, and so on until it has no such step."""
    chosen = 1
    while await canceller.was_cancelled(work, chosen):
        yield chosen
        chosen += 1
    assert chosen > 3


async def test_a_temporary_sandbox_leaves_nothing(
    manager: Manager, canceller: Canceller, run: Run
) -> None:
    async def work() -> None:
        async with manager.open(SMALL) as held:
            await held.machine.run(Command(argv=[b"true"]))

    async for step in each_step(canceller, work):
        assert leftovers(manager.config.home) == [], step


async def test_a_start_is_undone(manager: Manager, canceller: Canceller, run: Run) -> None:
    await manager.create("new", SMALL)
    async for step in each_step(canceller, lambda: manager.start("new")):
        if manager.records.find("new").state == "running":
            await manager.remove("new", force=True)
            await manager.create("new", SMALL)
        assert leftovers(manager.config.home) == [], step
    await manager.remove("new", force=True)


async def test_a_restore_is_undone(manager: Manager, canceller: Canceller, run: Run) -> None:
    snapshots = Snapshots(manager)
    async for step in each_step(canceller, lambda: snapshots.restore("moment", "new")):
        if any(record.name == "new" for record in manager.records.sandboxes()):
            await manager.remove("new", force=True)
        assert leftovers(manager.config.home) == [], step
    await manager.remove("new", force=True)


async def test_a_fork_is_undone_as_a_whole(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    canceller = Canceller(monkeypatch, FEW_PLACES)
    snapshots = Snapshots(manager)
    names = ["one", "two"]
    async for step in each_step(canceller, lambda: snapshots.fork("box", names)):
        found = [record.name for record in manager.records.sandboxes() if record.name in names]
        assert found in ([], names), step
        for name in found:
            await manager.remove(name, force=True)
        assert leftovers(manager.config.home) == [], step
        assert await says(manager, "box") == b"here\n", step
    for name in names:
        await manager.remove(name, force=True)


async def test_a_fork_for_which_one_copy_fails_makes_none(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    backend = copying(manager.running("box").backend)
    restore, calls = backend.restore, []

    async def second_fails(*args: Any, **fields: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise NameTaken("anything")
        return await restore(*args, **fields)

    monkeypatch.setattr(backend, "restore", second_fails)
    with pytest.raises(NameTaken):
        await Snapshots(manager).fork("box", ["one", "two", "three"])
    assert [record.name for record in manager.records.sandboxes()] == ["box"]
    assert leftovers(manager.config.home) == []


async def test_a_snapshot_is_undone_and_the_sandbox_goes_on(
    manager: Manager, canceller: Canceller, run: Run
) -> None:
    snapshots = Snapshots(manager)
    async for step in each_step(canceller, lambda: snapshots.take("box", "new")):
        if any(record.tag == "new" for record in manager.records.snapshots()):
            await snapshots.remove("new")
        assert leftovers(manager.config.home) == [], step
        assert await says(manager, "box") == b"here\n", step
    await snapshots.remove("new")


async def test_a_snapshot_whose_loading_machine_dies_is_undone_and_the_sandbox_goes_on(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """The state is saved by then, and loaded once into a machine that condenses it."""
    snapshots, load = Snapshots(manager), Vmm.load_stream

    async def dies(self: Vmm, stream: Path) -> None:
        os.kill(self.handle.pid, signal.SIGKILL)
        await load(self, stream)

    with monkeypatch.context() as patch:
        patch.setattr(Vmm, "load_stream", dies)
        with pytest.raises(SandboxError):
            await snapshots.take("box", "never")
    assert [record.tag for record in manager.records.snapshots()] == ["moment"]
    assert leftovers(manager.config.home) == []
    assert await says(manager, "box") == b"here\n"
    await snapshots.take("box", "afterwards")
    await snapshots.remove("afterwards")


async def test_a_stop_and_the_machines_own_end_do_not_get_in_each_others_way(
    manager: Manager, run: Run
) -> None:
    for _ in range(3):
        (copy,) = await Snapshots(manager).fork("box", ["brief"])
        stopping = asyncio.create_task(manager.stop("brief", grace_s=0.1))
        await asyncio.sleep(0)
        copy.backend.bury(copy.record.directory, copy.record.id, copy.machine.handle)
        record = await stopping
        assert record.state == "stopped"
        assert leftovers(manager.config.home) == []
        await manager.remove("brief")
