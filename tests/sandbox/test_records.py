"""What is remembered of sandboxes, by many processes at once, over damage and over versions."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crucible.errors import (
    CrucibleError,
    NameTaken,
    SandboxMissing,
    SnapshotMissing,
    SnapshotTaken,
    StateDamaged,
    StateTooNew,
)
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.records import (
    FILE_NAME,
    FORMAT,
    Records,
    SandboxRecord,
    SnapshotRecord,
    open_records,
    sandbox_directory,
    snapshot_directory,
    snapshot_facts,
    snapshot_from_facts,
)
from crucible.sandbox.spec import SandboxSpec

ODD_SPEC = SandboxSpec(
    image="other",
    memory_mib=1024,
    min_isolation=Isolation.NAMESPACE,
    environment={"A": "b=c", "ü": "\udcff\n", "": "x"},
    workdir="/a b",
    user="nobody",
)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    with closing(open_records(tmp_path)) as opened:
        yield opened


def sandbox(home: Path, name: str, spec: SandboxSpec = SandboxSpec()) -> SandboxRecord:  # noqa: B008
    return SandboxRecord(
        id=f"id-{name}",
        name=name,
        state="creating",
        spec=spec,
        directory=sandbox_directory(home, f"id-{name}"),
        created_at=time.time(),
    )


def snapshot(home: Path, tag: str) -> SnapshotRecord:
    return SnapshotRecord(
        tag=tag,
        id=f"id-{tag}",
        state="saving",
        sandbox_name="box",
        spec=ODD_SPEC,
        backend="qemu-tcg",
        isolation="software-vm",
        image_digest="d",
        created_at=5.0,
        directory=snapshot_directory(home, f"id-{tag}"),
    )


def test_a_record_comes_back_as_it_was_written(tmp_path: Path, records: Records) -> None:
    written = records.add(sandbox(tmp_path, "box", ODD_SPEC))
    assert records.find("box") == written
    with closing(open_records(tmp_path)) as again:
        assert again.sandboxes() == [written]


def test_an_update_changes_only_what_is_named(tmp_path: Path, records: Records) -> None:
    before = records.add(sandbox(tmp_path, "box"))
    after = records.update(before.id, state="running", pid=7)
    assert (after.state, after.pid, after.spec) == ("running", 7, before.spec)


def test_what_is_not_there_is_missing(records: Records) -> None:
    with pytest.raises(SandboxMissing):
        records.find("nosuch")
    with pytest.raises(SandboxMissing):
        records.update("nosuch", state="running")
    with pytest.raises(SnapshotMissing):
        records.find_snapshot("nosuch")
    records.delete("nosuch")


@pytest.mark.parametrize("name", ["box'; DROP TABLE sandboxes; --", "%", "b\0x", "\udcff"])
def test_names_are_never_part_of_a_statement(records: Records, name: str) -> None:
    with pytest.raises(SandboxMissing):
        records.find(name)
    assert records.sandboxes() == []


def test_a_name_is_given_once(tmp_path: Path, records: Records) -> None:
    first = records.add(sandbox(tmp_path, "box"))
    with pytest.raises(NameTaken):
        records.add(sandbox(tmp_path, "box"))
    assert records.sandboxes() == [first]


def test_a_tag_is_given_once(tmp_path: Path, records: Records) -> None:
    records.add_snapshot(snapshot(tmp_path, "tag"))
    with pytest.raises(SnapshotTaken):
        records.add_snapshot(snapshot(tmp_path, "tag"))
    assert records.find_snapshot("tag") == snapshot(tmp_path, "tag")


WRITER = """
import sys, time
from pathlib import Path
from tests.sandbox.test_records import sandbox
from crucible.errors import NameTaken
from crucible.sandbox.records import open_records
home, who = Path(sys.argv[1]), sys.argv[2]
records = open_records(home)
for number in range(10):
    record = records.add(sandbox(home, f"{who}-{number}"))
    records.update(record.id, state="running")
    records.write_audit("run", record.name, {"n": number})
try:
    records.add(sandbox(home, "contested"))
    print("won")
except NameTaken:
    print("lost")
"""


def test_processes_that_write_at_once_lose_nothing_and_share_nothing(tmp_path: Path) -> None:
    """They begin with no database at all: one of them makes it."""
    repository = Path(__file__).parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(number)],
            stdout=subprocess.PIPE,
            cwd=repository,
        )
        for number in range(6)
    ]
    outcomes = sorted(writer.communicate(timeout=60)[0] for writer in writers)
    assert outcomes == [b"lost\n"] * 5 + [b"won\n"]
    with closing(open_records(tmp_path)) as records:
        found = records.sandboxes()
        assert len(found) == 61
        assert len(records.audit(1000)) == 60


DYING_WRITER = """
import os, sys
from pathlib import Path
from crucible.sandbox.records import open_records
records = open_records(Path(sys.argv[1]))
with records._writing():
    records._db.execute("DELETE FROM sandboxes")
    os._exit(9)
"""


def test_a_writer_that_dies_in_the_middle_leaves_the_state_before(
    tmp_path: Path, records: Records
) -> None:
    records.add(sandbox(tmp_path, "box"))
    died = subprocess.run([sys.executable, "-c", DYING_WRITER, str(tmp_path)], timeout=60)
    assert died.returncode == 9
    assert [record.name for record in records.sandboxes()] == ["box"]
    records.add(sandbox(tmp_path, "next"))


@pytest.mark.parametrize("version", [1, 2])
def test_records_of_the_formats_before_are_taken_along(
    tmp_path: Path, records: Records, version: int
) -> None:
    written = records.add(sandbox(tmp_path, "box"))
    records.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        for table in ("sandboxes", "snapshots", "audit"):
            database.execute(f"ALTER TABLE {table} DROP COLUMN owner")
        if version == 1:
            database.execute("ALTER TABLE sandboxes DROP COLUMN placed")
        database.execute(f"PRAGMA user_version = {version}")
    for _ in range(2):
        with closing(open_records(tmp_path)) as again:
            assert again.find("box") == written


def test_state_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(StateTooNew) as refused:
        open_records(tmp_path)
    assert str(FORMAT + 1) in refused.value.message
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 50, b"SQLite format 3\0" + b"x" * 500]
)
def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StateDamaged) as refused:
        open_records(tmp_path)
    assert str(tmp_path) in refused.value.message
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_damage_inside_is_told_by_every_verb(tmp_path: Path) -> None:
    with closing(open_records(tmp_path)) as records:
        for number in range(200):
            records.add(sandbox(tmp_path, f"n{number}"))
    path = tmp_path / FILE_NAME
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    with closing(open_records(tmp_path)) as records:
        for attempt in (
            records.sandboxes,
            lambda: records.find("n5"),
            lambda: records.add(sandbox(tmp_path, "new")),
            lambda: records.update("id-n5", state="running"),
        ):
            with pytest.raises(StateDamaged):
                attempt()


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"memory_mib": "x"}', '{"nosuch": 1}'])
def test_a_description_that_cannot_be_read_is_told(
    tmp_path: Path, records: Records, text: str
) -> None:
    records.add(sandbox(tmp_path, "box"))
    records._db.execute("UPDATE sandboxes SET spec = ?", (text,))
    with pytest.raises(CrucibleError):
        records.find("box")


def test_the_newest_audit_lines_come_first(records: Records) -> None:
    for number in range(5):
        records.write_audit("run", "box", {"n": number})
    assert [line["detail"]["n"] for line in records.audit(3)] == [4, 3, 2]


def test_the_state_directory_is_for_us_alone(tmp_path: Path) -> None:
    with closing(open_records(tmp_path / "new")):
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_what_travels_with_a_snapshot_describes_it_again(tmp_path: Path) -> None:
    original = snapshot(tmp_path, "tag")
    again = snapshot_from_facts(
        snapshot_facts(original), tag="tag", record_id=original.id, directory=original.directory
    )
    assert (again.spec, again.sandbox_name, again.state) == (ODD_SPEC, "box", "saved")


@pytest.mark.parametrize(
    "change",
    [
        {"spec": None},
        {"spec": "{"},
        {"spec": "[]"},
        {"spec": '{"memory_mib": 1}'},
        {"spec": '{"nosuch": 1}'},
        {"isolation": "strongest"},
        {"created_at": "soon"},
        {"created_at": None},
    ],
    ids=range(8),
)
def test_hostile_facts_of_a_snapshot_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    facts = {**snapshot_facts(snapshot(tmp_path, "tag")), **change}
    with pytest.raises(CrucibleError):
        snapshot_from_facts(facts, tag="tag", record_id="x", directory=tmp_path)
