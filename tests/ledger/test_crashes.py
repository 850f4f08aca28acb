"""A process that is killed in the middle of writing leaves a record that is whole, and can be gone on with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.ledger.records import RUN, head_file, recorded, step, verdict

from crucible.errors import LedgerBroken, LedgerUnwritable, RunMissing
from crucible.ledger import settling
from crucible.ledger.heads import Head, Heads
from crucible.ledger.ledger import Ledger
from crucible.ledger.settling import Settling
from crucible.store.database import Database

APPENDS = """
import asyncio, sys, time
from pathlib import Path
from crucible.ledger.ledger import Ledger
from crucible.ledger.steps import Kind, Step
from crucible.store.database import Database

async def work(ledger, size):
    while True:
        step = Step(kind=Kind.TOOL_CALL, started_us=time.time_ns() // 1000)
        entry = await ledger.append("run-1", step, b"i" * size, b"o" * size)
        print(entry.number, flush=True)

async def main():
    ledger = Ledger(Path(sys.argv[1]), Database(sys.argv[2]))
    await asyncio.gather(*(work(ledger, 10 ** power) for power in range(5)))

asyncio.run(main())
"""


async def test_a_killed_process_leaves_a_whole_record(
    ledger: Ledger, run: Run, tmp_path: Path, database_url: str
) -> None:
    await recorded(ledger)
    ledger.settle()
    last = _append_until_killed(tmp_path / "home", database_url)
    found = verdict(ledger)
    assert found.is_whole, found.findings
    assert found.count >= last
    later = Ledger(tmp_path / "home", ledger.database)
    await later.append(RUN, step(), b"after")
    later.close()
    found = verdict(ledger)
    assert (found.is_whole, found.head_behind) == (True, 0)


def _append_until_killed(home: Path, url: str) -> int:
    """The last entry of which it said that it is there."""
    argv = [sys.executable, "-c", APPENDS, str(home), url]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(40)]
        process.kill()
        # A line that was cut is the beginning of another number.
        said += [int(line) for line in process.stdout if line.endswith("\n")]
    return max(said)


async def test_a_head_that_is_behind_is_no_alarm_and_catches_up(
    ledger: Ledger, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Settling, "add", lambda *_: None)
        await recorded(ledger)
    found = verdict(ledger)
    assert (found.is_whole, found.count, found.head_behind) == (True, 4, 4)
    later = Ledger(tmp_path / "home", ledger.database)
    await later.append(RUN, step())
    later.close()
    found = verdict(ledger)
    assert (found.is_whole, found.count, found.head_behind) == (True, 5, 0)


async def test_a_run_that_was_about_to_be_opened_can_be_opened(
    ledger: Ledger, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head was written, and then the process died before the run was there."""

    def die(self: Heads, *arguments: object) -> None:
        original(self, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    original = Heads.write
    with monkeypatch.context() as patched:
        patched.setattr(Heads, "write", die)
        with pytest.raises(KeyboardInterrupt):
            ledger._open_run(RUN, {}, "")
    with pytest.raises(RunMissing):
        await ledger.append(RUN, step())
    with pytest.raises(RunMissing):
        verdict(ledger)
    await recorded(ledger)
    assert verdict(ledger).is_whole


def test_an_older_head_does_not_take_the_place_of_a_newer(tmp_path: Path) -> None:
    heads = Heads(tmp_path)
    for count in (1, 3, 2):
        heads.write(Head(run=RUN, count=count, hash=""), "key", b"\0" * 64)
    assert heads._count(RUN) == 3
    assert list(heads.runs()) == [RUN]


def test_a_disk_that_fails_is_told_and_tried_again(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'crucible.db'}")
    ledger = Ledger(tmp_path, database)
    run(recorded(ledger))
    ledger.settle()

    def fail(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(settling, "settle", fail)
        run(ledger.append(RUN, step(), b"in"))
        with pytest.raises(LedgerUnwritable, match="No space"):
            ledger.settle()
        with pytest.raises(LedgerUnwritable, match="No space"):
            run(ledger.append(RUN, step()))
    assert (verdict(ledger).count, verdict(ledger).head_behind) == (5, 1)
    ledger.settle()
    assert verdict(ledger).head_behind == 0
    ledger.close()
    database.close()


async def test_a_damaged_head_stops_what_would_hide_it(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    await recorded(ledger)
    ledger.settle()
    path = head_file(tmp_path / "home")
    for damaged in (b"", path.read_bytes()[:-9]):
        path.write_bytes(damaged)
        later = Ledger(tmp_path / "home", ledger.database)
        with pytest.raises(LedgerBroken, match="head"):
            await later.append(RUN, step())
        later.close()
        assert path.read_bytes() == damaged


async def test_a_content_that_cannot_be_written_leaves_no_entry(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    await ledger.open_run(RUN)
    (tmp_path / "home" / "ledger" / "blobs").write_text("in the way")
    with pytest.raises(LedgerUnwritable):
        await ledger.append(RUN, step(), b"in")
    assert await ledger.entries(RUN) == []
    assert verdict(ledger).is_whole
