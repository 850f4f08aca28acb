"""Runs are opened, steps appended, contents read and erased, on both kinds of database."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.docs.pages import ROOT, Page
from tests.ledger.records import RUN, problems, recorded, step, steps, verdict

from crucible.errors import BadEntry, ContentGone, ContentTooLarge, RunMissing, RunTaken
from crucible.ledger import contents
from crucible.ledger.ledger import Ledger, Recorded
from crucible.ledger.steps import Kind

GUIDE = ROOT / "docs" / "guides" / "ledger.md"


async def test_what_was_appended_is_read_back(ledger: Ledger, run: Run) -> None:
    written = await recorded(ledger)
    assert await ledger.entries(RUN) == written
    assert [entry.number for entry in written] == [1, 2, 3, 4]
    first = written[0]
    assert (first.model, first.sandbox, first.isolation) == ("", "box", "software-vm")
    assert first.ended_us == first.started_us + 1500
    assert written[2].cost_micros is None
    assert await ledger.entries(RUN, after=1, limit=2) == written[1:3]


async def test_contents_are_read_by_the_names_that_entries_have(ledger: Ledger, run: Run) -> None:
    _, second, third, _ = await recorded(ledger)
    assert second.input is None
    assert second.output is not None
    assert await ledger.blob(RUN, second.output) == b"output 1"
    assert third.output is not None
    assert await ledger.blob(RUN, third.output) == b""


async def test_the_same_content_twice_shows_in_no_hash(ledger: Ledger, run: Run) -> None:
    await ledger.open_run(RUN)
    entry = await ledger.append(RUN, step(), b"1234", b"1234")
    assert entry.input != entry.output


async def test_a_run_is_told_with_its_sums(ledger: Ledger, run: Run) -> None:
    await recorded(ledger)
    await ledger.open_run("empty")
    found = {summary.id: summary for summary in await ledger.runs()}
    assert found[RUN].facts == {"agent": "coder"}
    assert (found[RUN].count, found[RUN].tokens_in, found[RUN].tokens_out) == (4, 60, 6)
    assert (found[RUN].cost_micros, found[RUN].models) == (21, ("small",))
    assert (found["empty"].count, found["empty"].tokens_in) == (0, 0)
    assert await ledger.run(RUN) == found[RUN]


async def test_runs_are_listed_by_user_and_time(ledger: Ledger, run: Run) -> None:
    opened = [await ledger.open_run(f"run-{i}", user=f"user-{i % 2}") for i in range(4)]
    latest = await ledger.runs(limit=3)
    assert {summary.id for summary in latest} <= {f"run-{i}" for i in range(4)}
    assert [item.opened_us for item in latest] == sorted(
        (item.opened_us for item in latest), reverse=True
    )
    assert {item.id for item in await ledger.runs(user="user-1")} == {"run-1", "run-3"}
    earlier = await ledger.runs(before_us=opened[2].opened_us)
    assert all(item.opened_us < opened[2].opened_us for item in earlier)
    assert await ledger.runs(user="nobody") == []


async def test_what_is_not_there_is_said(ledger: Ledger, run: Run) -> None:
    await recorded(ledger)
    for work in (ledger.entries("no"), ledger.run("no"), ledger.append("no", step())):
        with pytest.raises(RunMissing, match="'no'"):
            await work
    with pytest.raises(RunMissing):
        await ledger.erase("no")
    with pytest.raises(RunTaken, match=RUN):
        await ledger.open_run(RUN)
    for name in ("0" * 64, "../../../keys/ledger.pem", ""):
        with pytest.raises(ContentGone):
            await ledger.blob(RUN, name)


async def test_a_run_has_a_name_that_files_can_have(ledger: Ledger, run: Run) -> None:
    for name in ("", "a/b", "..", "é", "x" * 65, "a\n", "a b"):
        for work in (ledger.open_run(name), ledger.append(name, step()), ledger.blob(name, "0")):
            with pytest.raises(BadEntry):
                await work


REFUSED = [
    replace(step(), facts={"cost": 0.5}),  # type: ignore[dict-item]
    replace(step(), facts={"é": 1}),
    replace(step(), facts={"text": "\ud800"}),
    replace(step(), facts={"large": "x" * 4096}),
    replace(step(), facts={"deep": [[[[[[[1]]]]]]]}),
    replace(step(), facts={"number": 1 << 53}),
    replace(step(), started_us=-1),
    replace(step(), tokens_in=1.0),  # type: ignore[arg-type]
    replace(step(), tokens_in=True),
    replace(step(), model="a\0b"),
    replace(step(), sandbox="x" * 201),
    replace(step(), image="\ud800"),
]


async def test_what_cannot_be_written_the_same_way_twice_is_refused(
    ledger: Ledger, run: Run
) -> None:
    await ledger.open_run(RUN)
    for bad in REFUSED:
        with pytest.raises(BadEntry):
            await ledger.append_all(RUN, [Recorded(step=step()), Recorded(step=bad)])
    assert await ledger.entries(RUN) == []


async def test_a_content_that_is_too_large_leaves_no_entry(
    ledger: Ledger, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MAX_CONTENT", 1000)
    await ledger.open_run(RUN)
    await ledger.append(RUN, step(), b"x" * 1000)
    with pytest.raises(ContentTooLarge, match="1001"):
        await ledger.append(RUN, step(), b"x" * 1001)
    assert len(await ledger.entries(RUN)) == 1


async def test_parallel_appends_form_one_chain(ledger: Ledger, run: Run) -> None:
    await ledger.open_run(RUN)
    work = (ledger.append(RUN, step(i), str(i).encode()) for i in range(40))
    entries = sorted(await asyncio.gather(*work), key=lambda entry: entry.number)
    assert [entry.number for entry in entries] == list(range(1, 41))
    assert [entry.previous for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    assert {await ledger.blob(RUN, str(entry.input)) for entry in entries} == {
        str(i).encode() for i in range(40)
    }
    assert verdict(ledger).is_whole


async def test_many_runs_at_once_are_not_mixed_up(ledger: Ledger, run: Run) -> None:
    names = [f"run-{i}" for i in range(12)]
    await asyncio.gather(*(ledger.open_run(name) for name in names))
    await asyncio.gather(*(ledger.append(name, step(i)) for i in range(4) for name in names))
    for name in names:
        assert len(await ledger.entries(name)) == 4
        assert verdict(ledger, name).is_whole


async def test_of_two_that_open_a_run_at_once_one_does(ledger: Ledger, run: Run) -> None:
    results = await asyncio.gather(
        *(ledger.open_run(RUN, {"who": i}) for i in range(4)), return_exceptions=True
    )
    assert sum(isinstance(result, RunTaken) for result in results) == 3
    await ledger.append(RUN, step())
    assert verdict(ledger).is_whole


async def test_what_happened_is_recorded_though_nobody_waits(ledger: Ledger, run: Run) -> None:
    await ledger.open_run(RUN)
    task = asyncio.ensure_future(ledger.append(RUN, step(), b"in"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(ledger.close)
    assert len(await ledger.entries(RUN)) == 1
    assert verdict(ledger).is_whole


async def test_two_programs_write_one_chain(ledger: Ledger, run: Run, tmp_path: Path) -> None:
    """Each with a ledger of its own on the same database: neither knows what the other has written."""
    other = Ledger(tmp_path / "home", ledger.database)
    await recorded(ledger)
    for i in range(3):
        await other.append(RUN, step(i))
        await ledger.append(RUN, step(i))
    other.close()
    ledger.settle()
    found = verdict(ledger)
    assert (found.is_whole, found.count, found.head_behind) == (True, 10, 0)


async def test_erasing_leaves_the_entry_and_says_so(ledger: Ledger, run: Run) -> None:
    written = await recorded(ledger)
    name = str(written[2].input)
    (erasure,) = await ledger.erase(RUN, [name, "0" * 64], reason="the user asked")
    assert erasure.kind == Kind.ERASURE
    assert erasure.facts == {"erased": ["3i"], "reason": "the user asked"}
    with pytest.raises(ContentGone):
        await ledger.blob(RUN, name)
    assert (await ledger.entries(RUN))[:4] == written
    found = verdict(ledger)
    assert (found.is_whole, found.kept, found.erased) == (True, 6, 1)


async def test_nothing_of_an_erased_content_can_be_found(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    """Nor tried out: its salt is gone with it."""
    await ledger.open_run(RUN)
    entry = await ledger.append(RUN, step(), b"4711")
    path = tmp_path / "home" / "ledger" / "blobs" / RUN / str(entry.input)
    data = path.read_bytes()
    assert data.endswith(b"4711")
    salt = data[-4 - contents.SALT_BYTES : -4]
    assert contents.name_of(salt, b"4711") == entry.input
    await ledger.erase(RUN)
    ledger.settle()
    for file in (tmp_path / "home").rglob("*"):
        if file.is_file():
            assert salt not in file.read_bytes()
    guesses = {contents.name_of(b"", str(i).encode()) for i in range(10_000)}
    assert entry.input not in guesses


async def test_everything_can_be_erased_again_and_again(ledger: Ledger, run: Run) -> None:
    await recorded(ledger)
    assert len(await ledger.erase(RUN)) == 1
    assert len(await ledger.erase(RUN)) == 1
    await ledger.append(RUN, step(), b"later")
    found = verdict(ledger)
    assert (found.is_whole, found.kept, found.erased) == (True, 1, 7)
    assert await ledger.erase(RUN, []) == []


async def test_an_erasure_of_many_fits_into_its_entries(ledger: Ledger, run: Run) -> None:
    await ledger.open_run(RUN)
    entries = await ledger.append_all(RUN, steps(130))
    names = [name for entry in entries for name in (entry.input, entry.output) if name]
    erasures = await ledger.erase(RUN, names)
    assert len(erasures) == 2
    found = verdict(ledger)
    assert (found.is_whole, found.kept, found.erased) == (True, 0, len(names))


async def test_contents_that_no_entry_names_go_with_an_erasure(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    """As a process leaves them that dies before the entry; what is new may belong to one that lives."""
    await recorded(ledger)
    old, new = ledger.contents.add(RUN, b"old"), ledger.contents.add(RUN, b"new")
    draft = ledger.contents.path(RUN, ".draft")
    draft.write_bytes(b"half")
    for path in (ledger.contents.path(RUN, old), draft):
        os.utime(path, (1, 1))
    assert verdict(ledger).is_whole
    await ledger.erase(RUN, [])
    assert ledger.contents.read(RUN, old) is None
    assert ledger.contents.read(RUN, new) == b"new"
    assert not draft.exists()
    assert problems(verdict(ledger)) == []


async def test_the_guide_goes_as_it_is_written(
    run: Run, tmp_path: Path, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = Page(path=GUIDE, text=GUIDE.read_text("utf-8")).blocks("python")
    (block,) = [one for one in blocks if "def record(" in one]
    names: dict[str, Any] = {}
    exec(block, names)
    await names["record"](tmp_path / "home", database_url)
    assert capsys.readouterr().out == "1 b'hello\\n'\n"
