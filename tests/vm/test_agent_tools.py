"""The agent's tools in a real sandbox: all that they claim, and what only a sandbox has: an end, a restart, a way back.

All tests share one sandbox, whose session each of them opens anew, as a program does that was started again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.tool_claims import CLAIMS, Bench, Claim, heard, long_sleep
from tests.conftest import SMALL, Run

from crucible import assemble
from crucible.agent.places import interpreting
from crucible.agent.places.opening import SandboxRoom, Wanted
from crucible.agent.places.sandbox import SandboxWorkplace
from crucible.agent.workplace import WORKSPACE
from crucible.config import Config
from crucible.errors import SnapshotMissing, WorkplaceLost
from crucible.sandbox import processes
from crucible.sandbox.executions import Executions
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.takeover import take_all_over

pytestmark = pytest.mark.vm

NAME = "agent-tools"


class Program:
    """The program that holds the sandboxes; it can die and come back."""

    def __init__(self, home: Path, directory: Path) -> None:
        self.home = home
        self.directory = directory
        self.room = self._room()

    def workplace(self) -> SandboxWorkplace:
        return SandboxWorkplace(
            self.room, NAME, Wanted(spec=SMALL, host_directory=str(self.directory))
        )

    async def die_and_come_back(self) -> None:
        await self.room.manager.hands.let_all_go()
        await self.room.executions.close()
        self.room = self._room()
        await take_all_over(self.room.manager)
        for held in self.room.manager.held.values():
            await self.room.executions.take_over(held)

    def _room(self) -> SandboxRoom:
        manager = assemble.manager(Config(home=self.home))
        return SandboxRoom(
            manager=manager, executions=Executions(manager), snapshots=Snapshots(manager)
        )


@pytest.fixture(scope="module")
def program(
    small_home: Path, tmp_path_factory: pytest.TempPathFactory, run: Run
) -> Iterator[Program]:
    directory = tmp_path_factory.mktemp("project")
    (directory / "of-host.txt").write_text("copied in")

    async def begin() -> Program:
        return Program(small_home, directory)

    program = run(begin())
    yield program
    run(program.workplace().close())


@pytest.fixture
def bench(program: Program) -> Bench:
    return Bench(program.workplace())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
async def test_in_a_sandbox(claim: Claim, bench: Bench, run: Run) -> None:
    await claim(bench)


async def test_commands_see_the_workspace_and_what_they_put_aside_goes_on(
    bench: Bench, run: Run
) -> None:
    sleep = long_sleep()
    await bench.ok("bash", command=f"{sleep} >/dev/null 2>&1 & echo $! >/tmp/aside")
    assert sleep.encode() in await bench.processes()
    await bench.ok("bash", command="kill $(cat /tmp/aside)")
    place = bench.workplace.place
    assert place is not None
    assert place.name == NAME
    assert place.isolation in ("software-vm", "hardware-vm")


async def test_code_that_does_not_let_itself_be_interrupted_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr(interpreting, "GRACE_S", 0.5)
    deaf = (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nkept = 1\nprint('deaf')\n"
        "while True: pass"
    )
    running = asyncio.ensure_future(bench.call("python", code=deaf, timeout_s=600))
    await heard(bench, b"deaf", running)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    anew = "import os\nassert 'kept' not in dir()\nos._exit(3)"
    assert "variables are gone" in await bench.refused("python", code=anew)


async def test_what_ran_when_the_program_died_is_ended_and_told(program: Program, run: Run) -> None:
    bench, sleep = Bench(program.workplace()), long_sleep()
    await bench.ok("python", code="kept = 41")
    running = asyncio.ensure_future(
        bench.call("bash", command=f"echo begun; trap '' HUP TERM; {sleep}", timeout_s=600)
    )
    await heard(bench, b"begun", running)
    await program.die_and_come_back()
    await asyncio.gather(running, return_exceptions=True)
    again = Bench(program.workplace())
    text = await again.ok("python", code="kept + 1")
    assert text == "[What ran when this session was cut short was ended]\n42"
    await again.nothing_runs(sleep)


async def test_a_sandbox_that_died_is_told_and_started_again_with_its_files(
    program: Program, run: Run
) -> None:
    bench = Bench(program.workplace())
    await bench.ok("write", path="dead/file", content="still here")
    await bench.workplace.run(("sync",), timeout_s=60)
    record = program.room.manager.records.find(NAME)
    assert record.pid is not None
    running = asyncio.ensure_future(bench.workplace.run(("sleep", "600"), timeout_s=600))
    while not program.room.executions.running(record):
        assert not running.done(), running.result()
        await asyncio.sleep(0.01)
    processes.kill_and_wait(record.pid, record.pid_started)
    with pytest.raises(WorkplaceLost):
        await running
    text = await bench.ok("read", path="dead/file")
    assert "was started again" in text
    assert "Its files are as they were" in text
    assert text.endswith("     1\tstill here")
    assert await bench.ok("read", path="dead/file") == "     1\tstill here"


async def test_a_sandbox_that_somebody_removed_is_made_anew_and_that_is_told(
    program: Program, run: Run
) -> None:
    bench = Bench(program.workplace())
    await bench.ok("write", path="gone/file", content="1")
    await program.room.manager.remove(NAME, force=True)
    text = await bench.refused("read", path="gone/file")
    assert "a new one was made. Its files are gone too" in text
    assert "does not exist" in text
    assert await bench.ok("read", path="of-host.txt") == "     1\tcopied in"


async def test_a_session_goes_back_and_branches_off(program: Program, run: Run) -> None:
    place = program.workplace()
    bench = Bench(place)
    await bench.ok("bash", command="mkdir -p /workspace/then && cd /workspace/then && echo 1 >n")
    await bench.ok("python", code="n = 1")
    first = await place.checkpoint()
    assert first.bytes > 1 << 20
    assert first.duration_s > 0
    assert [one.id for one in await program.workplace().checkpoints()] == [first.id]
    await bench.ok("bash", command="echo 2 >n; cd /")
    await bench.ok("python", code="n = 2")
    other = await place.branch(first.id, session="branched")
    try:
        await place.rewind(first.id)
        for one in (bench, Bench(other)):
            assert await one.ok("bash", command="pwd; cat n") == f"{WORKSPACE}/then\n1"
            assert await one.ok("python", code="n") == "1"
        await Bench(other).ok("bash", command="echo 3 >n")
        assert await bench.ok("bash", command="cat n; cd /workspace") == "1"
    finally:
        await other.close()
    await place.forget(first.id)
    with pytest.raises(SnapshotMissing):
        await place.rewind(first.id)
    assert await bench.ok("bash", command="cat then/n") == "1"
