"""`kill -9` of whoever controls a sandbox, at every step of everything that changes one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.conftest import ROOT, SMALL
from tests.e2e.dying import STEPS_FILE
from tests.e2e.leftovers import leftovers

from crucible.backends.qemu.disks import find_chain
from crucible.client.connection import Owner
from crucible.client.exchange import Unseen, ask
from crucible.client.flows import CallSink
from crucible.client.link import LinkLost
from crucible.client.protocol import OUTPUT
from crucible.errors import OwnerUnreachable
from crucible.sandbox.records import SandboxRecord, open_records

pytestmark = pytest.mark.vm

NOBODY = ""
SPEC = {"memory_mib": SMALL.memory_mib}
Habits = Mapping[str, int]
USUAL: Habits = MappingProxyType({})


class Mortals:
    """Owners that die at a given step, one after the other, and requests to them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CRUCIBLE_")}
        self._maker = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.dying", str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**kept, "CRUCIBLE_HOME": str(home), "PYTHONPATH": str(ROOT)},
        )
        self._owner = 0

    def owner(self, verb: str = NOBODY, step: str = "", habits: Habits = USUAL) -> None:
        """A new owner in the place of the one before."""
        self.end()
        self._owner = self._order(verb=verb, step=step, waits=False, **habits)
        while (connection := Owner(self.home).connect_if_running()) is None:
            time.sleep(0.005)
        connection.close()

    def end(self) -> None:
        if self._owner:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._owner, 9)
            # Its socket takes connections until the last of its threads is gone.
            while (connection := Owner(self.home).connect_if_running()) is not None:
                connection.close()
                time.sleep(0.002)
            self._owner = 0

    def run(self, step: str, *argv: str) -> None:
        """A `crucible run` that dies at the step; returns when it is gone."""
        self._order(verb="run", step=step, argv=argv, waits=True)
        self._answer()

    def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        return ask(self._connect, {"verb": verb, **fields}, progress=Unseen())

    def says(self, name: str, *argv: str) -> bytes:
        """What a command in a sandbox prints."""
        said = bytearray()
        request = {"verb": "exec", "name": name, "command": {"argv": list(argv)}}
        sinks = {OUTPUT: CallSink(said.extend), 2: CallSink(lambda data: None)}
        answer = ask(self._connect, request, progress=Unseen(), sinks=sinks)
        assert answer["exit"]["status"] == 0, (argv, said)
        return bytes(said)

    def dies(self, verb: str, step: str, habits: Habits = USUAL, **fields: Any) -> bool:
        """Whether the request was answered before its owner died of it. Then another owner takes over."""
        self.owner(verb, step, habits)
        try:
            self.ask(verb, **fields)
            was_answered = True
        except (OwnerUnreachable, LinkLost):
            was_answered = False
        self.owner()
        self.ask("ping")
        return was_answered

    def steps(self, verb: str, habits: Habits = USUAL, **fields: Any) -> list[str]:
        """The steps of a request that succeeds, by which it can be made to die."""
        self.owner(verb, habits=habits)
        (self.home / STEPS_FILE).write_bytes(b"")
        self.ask(verb, **fields)
        return self.taken()

    def taken(self) -> list[str]:
        time.sleep(0.1)
        steps = (self.home / STEPS_FILE).read_text().splitlines()
        return [step for step in dict.fromkeys(steps) if int(step.rpartition("#")[2]) <= 2]

    def record(self, name: str) -> SandboxRecord | None:
        records = open_records(self.home)
        try:
            return next((item for item in records.sandboxes() if item.name == name), None)
        finally:
            records.close()

    def tags(self) -> set[str]:
        records = open_records(self.home)
        try:
            return {item.tag for item in records.snapshots()}
        finally:
            records.close()

    def state(self, name: str) -> str:
        record = self.record(name)
        return "" if record is None else record.state

    def close(self) -> None:
        self.owner()
        records = open_records(self.home)
        for record in records.sandboxes():
            self.ask("remove", name=record.name, force=True)
        records.close()
        self.end()
        self._maker.communicate(timeout=240)

    def _connect(self) -> Any:
        connection = Owner(self.home).connect_if_running()
        if connection is None:
            raise LinkLost("nobody listens")
        return connection

    def _order(self, **order: Any) -> int:
        assert self._maker.stdin is not None
        self._maker.stdin.write(json.dumps(order).encode() + b"\n")
        self._maker.stdin.flush()
        return int(self._answer())

    def _answer(self) -> str:
        assert self._maker.stdout is not None
        return self._maker.stdout.readline().decode().strip()


@pytest.fixture(scope="module")
def mortals(small_home: Path) -> Iterator[Mortals]:
    found = Mortals(small_home)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def box(mortals: Mortals) -> str:
    """A running sandbox with a file in it that was never synced, and a snapshot of that."""
    mortals.owner()
    mortals.ask("create", name="box", spec=SPEC, start=True)
    mortals.says("box", "sh", "-c", "echo kept > /workspace/note")
    mortals.ask("snapshot", name="box", tag="moment")
    return "box"


@pytest.fixture
def copies(mortals: Mortals, box: str) -> Iterator[Callable[[], str]]:
    """Running sandboxes that have the file, and an owner that lives, whatever came before."""
    made: list[str] = []
    mortals.owner()

    def copy() -> str:
        made.append(f"copy-{len(made)}")
        mortals.ask("restore", tag="moment", name=made[-1])
        return made[-1]

    yield copy
    for name in made:
        if mortals.record(name) is not None:
            mortals.ask("remove", name=name, force=True)


WRITE_BOTH = "echo $1 > /kept/first; yes $1 | head -n 100000 > /kept/second"


def stamps(home: Path, volume: str = "kept") -> set[str]:
    with tarfile.open(home / "volumes" / f"{volume}.tar") as archive:
        texts = [archive.extractfile(name) for name in ("first", "second")]
        return {
            line.strip() for text in texts if text for line in text.read().decode().splitlines()
        }


def keeping(steps: list[str]) -> list[str]:
    """From where the processes are told to end to where the volume has its new content."""
    last = steps.index("after volumes._put #1")
    return steps[steps.index("before guest.END_ALL #1") : last + 1]


# Who dies here leaves what who dies at the next step leaves: nothing is changed by a question, by reaching a monitor,
# or by taking up a request, which a `create` is made to die of all the same.
NOTHING_NEW = (
    "before monitor.query-", "before monitor.qmp_capabilities", "before guest.LIST", "before client.accept",
)  # fmt: skip


def each(steps: list[str]) -> Iterator[str]:
    assert len(steps) >= 2, steps
    yield from (step for step in steps if not step.startswith(NOTHING_NEW))


def check(mortals: Mortals, step: str) -> None:
    assert leftovers(mortals.home) == [], step


def test_a_create_is_done_or_undone(mortals: Mortals) -> None:
    steps = mortals.steps("create", name="seen", spec=SPEC)
    assert "before client.accept #1" in steps
    for step in steps:
        was_answered = mortals.dies("create", step, name="new", spec=SPEC)
        check(mortals, step)
        assert mortals.state("new") in (("created",) if was_answered else ("", "created")), step
        if mortals.state("new"):
            mortals.ask("remove", name="new")
    mortals.ask("remove", name="seen")


def test_a_first_start_is_done_or_undone(mortals: Mortals) -> None:
    mortals.owner()
    mortals.ask("create", name="new", spec=SPEC)
    steps = mortals.steps("start", name="new")
    for step in each(steps):
        mortals.ask("remove", name="new", force=True)
        mortals.ask("create", name="new", spec=SPEC)
        was_answered = mortals.dies("start", step, name="new")
        check(mortals, step)
        assert mortals.state("new") in (("running",) if was_answered else ("created", "running")), (
            step
        )
        if mortals.state("new") == "running":
            assert mortals.says("new", "echo", "here") == b"here\n", step
    mortals.ask("remove", name="new", force=True)


def test_an_exec_that_was_cut_short_leaves_the_sandbox_as_it_was(
    mortals: Mortals, box: str
) -> None:
    command = {"argv": ["true"]}
    steps = mortals.steps("exec", name=box, command=command)
    for step in each(steps):
        mortals.dies("exec", step, name=box, command=command)
        check(mortals, step)
        assert mortals.says(box, "cat", "/workspace/note") == b"kept\n", step
    running = [item for item in mortals.ask("execs", name=box)["execs"] if not item["is_done"]]
    assert running == []


def test_a_snapshot_is_saved_or_gone_and_its_sandbox_goes_on(mortals: Mortals, box: str) -> None:
    steps = mortals.steps("snapshot", name=box, tag="seen")
    mortals.ask("snapshot_remove", tag="seen")
    for step in each(steps):
        was_answered = mortals.dies("snapshot", step, name=box, tag="new")
        check(mortals, step)
        tags = mortals.tags()
        assert "moment" in tags, step
        assert "new" in tags or not was_answered, step
        assert mortals.says(box, "cat", "/workspace/note") == b"kept\n", step
        if "new" in tags:
            mortals.ask("snapshot_remove", tag="new")
    # Whatever the deaths left of the disk's layers, a snapshot of them is whole.
    mortals.says(box, "sh", "-c", "echo later > /workspace/later")
    mortals.ask("snapshot", name=box, tag="last")
    mortals.ask("restore", tag="last", name="of-last")
    assert mortals.says("of-last", "cat", "/workspace/later") == b"later\n"
    mortals.ask("remove", name="of-last", force=True)
    mortals.ask("snapshot_remove", tag="last")


def test_a_merge_that_was_cut_short_leaves_a_whole_disk(
    mortals: Mortals, copies: Callable[[], str]
) -> None:
    """A copy's disk has four layers, which is too long for these owners."""
    habits = {"longest_chain": 3}
    steps = mortals.steps("snapshot", habits, name=copies(), tag="seen")
    mortals.ask("snapshot_remove", tag="seen")
    # What comes later is every snapshot's.
    merging = steps[: steps.index("before guest.FREEZE #1")]
    assert {"after monitor.block-stream #1", "after monitor.blockdev-del #1"} <= set(merging)
    # How often it looks whether the merge is done depends on how fast that goes.
    certain = [step for step in merging if "monitor" in step and "query-jobs #2" not in step]
    for step in each(certain):
        name = copies()
        mortals.says(name, "sh", "-c", "echo late > /workspace/late; sync")
        assert not mortals.dies("snapshot", step, habits, name=name, tag="new"), step
        check(mortals, step)
        assert mortals.tags() == {"moment"}, step
        script = "cat /workspace/note /workspace/late"
        assert mortals.says(name, "sh", "-c", script) == b"kept\nlate\n", step
        record = mortals.record(name)
        assert record is not None
        layers = find_chain(record.directory).layers
        is_merged = "blockdev-del" in step or "remove-fd" in step
        assert len(layers) in ((3,) if is_merged else (3, 4)), step
        assert opened(record) == {(path.name, path == layers[-1]) for path in layers}, step
        if step in ("after monitor.block-stream #1", "after monitor.blockdev-del #1"):
            mortals.ask("stop", name=name, grace_s=2)
            mortals.ask("start", name=name)
            assert mortals.says(name, "sh", "-c", script) == b"kept\nlate\n", step
        mortals.ask("remove", name=name, force=True)


def opened(record: SandboxRecord) -> set[tuple[str, bool]]:
    """The layers that a machine has open, and whether it can write to them."""
    process = Path("/proc", str(record.pid))
    found = set()
    for entry in (process / "fd").iterdir():
        # It may close any of them while we look.
        with contextlib.suppress(FileNotFoundError):
            name = entry.readlink().name
            if name.startswith("disk-"):
                info = (process / "fdinfo" / entry.name).read_text()
                flags = int(info.split("flags:")[1].split()[0], 8)
                found.add((name, flags & os.O_ACCMODE != os.O_RDONLY))
    return found


def test_a_restore_is_done_or_undone(mortals: Mortals, box: str) -> None:
    steps = mortals.steps("restore", tag="moment", name="new")
    mortals.ask("remove", name="new", force=True)
    for step in each(steps):
        was_answered = mortals.dies("restore", step, tag="moment", name="new")
        check(mortals, step)
        assert mortals.state("new") in (("running",) if was_answered else ("", "running")), step
        if mortals.state("new"):
            assert mortals.says("new", "cat", "/workspace/note") == b"kept\n", step
            mortals.ask("remove", name="new", force=True)


def test_a_fork_leaves_whole_copies_or_none(mortals: Mortals, box: str) -> None:
    names = ["one", "two"]
    steps = mortals.steps("fork", name=box, names=names)
    for name in names:
        mortals.ask("remove", name=name, force=True)
    # What comes before is a snapshot's too; and where only one copy has come to is a restore's.
    late = steps[steps.index("before saved.describe #1") :]
    words = {step.removesuffix(" #2") for step in late if step.endswith(" #2")}
    for step in each([step for step in late if step.removesuffix(" #1") not in words]):
        was_answered = mortals.dies("fork", step, name=box, names=names)
        check(mortals, step)
        states = [mortals.state(name) for name in names]
        assert states == ["running"] * 2 or not was_answered, step
        for name, state in zip(names, states, strict=True):
            assert state in ("", "running"), step
            if state:
                assert mortals.says(name, "cat", "/workspace/note") == b"kept\n", step
                mortals.ask("remove", name=name, force=True)


def test_a_remove_that_was_begun_is_finished(mortals: Mortals, copies: Callable[[], str]) -> None:
    steps = mortals.steps("remove", name=copies(), force=True)
    begun = False
    for step in each(steps):
        name = copies()
        mortals.dies("remove", step, name=name, force=True)
        check(mortals, step)
        begun = begun or step.startswith("before vmm.bury")
        assert mortals.state(name) in (("",) if begun else ("", "running")), step


def test_a_stop_that_was_begun_is_finished_and_keeps_the_disk(
    mortals: Mortals, copies: Callable[[], str]
) -> None:
    steps = mortals.steps("stop", name=copies(), grace_s=2)
    stopped = []
    for step in each(steps):
        name = copies()
        mortals.says(name, "sh", "-c", "echo late > /workspace/late")
        was_answered = mortals.dies("stop", step, name=name, grace_s=2)
        check(mortals, step)
        state = mortals.state(name)
        assert state in (("stopped",) if was_answered else ("stopped", "running")), step
        if state == "stopped" and "SHUTDOWN" in step:
            stopped.append(name)
    assert stopped
    for name in stopped:
        mortals.ask("start", name=name)
        assert mortals.says(name, "cat", "/workspace/note", "/workspace/late") == b"kept\nlate\n"
        mortals.ask("remove", name=name, force=True)


def test_a_volume_is_the_old_or_the_new_one_whenever_its_keeper_dies(mortals: Mortals) -> None:
    """Two files that always say the same: a volume in which they differ is neither."""

    def begin(stamp: str) -> None:
        mortals.ask(
            "create", name="keeper", spec={**SPEC, "mounts": ["kept:/kept:volume"]}, start=True
        )
        mortals.says("keeper", "sh", "-c", WRITE_BOTH, "sh", stamp)

    mortals.owner()
    begin("0")
    steps = mortals.steps("stop", name="keeper", grace_s=2)
    assert "before volumes._write #2" in steps, "half a volume is one of the steps"
    for stamp, step in enumerate(each(keeping(steps)), start=1):
        mortals.ask("remove", name="keeper", force=True)
        begin(str(stamp))
        mortals.dies("stop", step, name="keeper", grace_s=2)
        check(mortals, step)
        # The machine outlived its keeper, and the next one has finished what was begun.
        assert mortals.state("keeper") == "stopped", step
        assert stamps(mortals.home) == {f"{stamp}"}, step
        assert not (mortals.home / "volumes" / ".kept.tar").exists(), step
    mortals.ask("remove", name="keeper", force=True)


def test_a_run_that_dies_leaves_its_volume_old_or_new(mortals: Mortals) -> None:
    def run(step: str, stamp: int) -> None:
        words = ("--image", "base", "--volume", "ran:/kept", "--")
        mortals.run(step, *words, "sh", "-c", WRITE_BOTH, "sh", f"{stamp}")

    mortals.end()
    (mortals.home / STEPS_FILE).write_bytes(b"")
    run("", 0)
    steps = mortals.taken()
    stamp = 0
    for step in each(keeping(steps)):
        run(step, stamp + 1)
        found = stamps(mortals.home, "ran")
        assert found in ({f"{stamp}"}, {f"{stamp + 1}"}), step
        stamp = int(found.pop())
    run("", stamp + 1)
    assert stamps(mortals.home, "ran") == {f"{stamp + 1}"}
    assert not (mortals.home / "volumes" / ".ran.tar").exists()


def test_a_later_start_is_done_or_undone_and_keeps_the_disk(
    mortals: Mortals, copies: Callable[[], str]
) -> None:
    name = copies()
    mortals.ask("stop", name=name, grace_s=2)
    steps = mortals.steps("start", name=name)
    for step in each(steps):
        if mortals.state(name) == "running":
            mortals.ask("stop", name=name, grace_s=2)
        was_answered = mortals.dies("start", step, name=name)
        check(mortals, step)
        assert mortals.state(name) in (("running",) if was_answered else ("stopped", "running")), (
            step
        )
    if mortals.state(name) != "running":
        mortals.ask("start", name=name)
    assert mortals.says(name, "cat", "/workspace/note") == b"kept\n"


def test_a_run_that_dies_leaves_nothing_after_the_next_one(mortals: Mortals) -> None:
    mortals.end()
    (mortals.home / STEPS_FILE).write_bytes(b"")
    mortals.run("", "--image", "base", "true")
    for step in each(mortals.taken()):
        mortals.run(step, "--image", "base", "true")
        mortals.owner()
        mortals.ask("ping")
        check(mortals, step)
        mortals.end()
