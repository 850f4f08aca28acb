"""Volumes: whole or as they were, and one writer at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crucible.errors import (
    BadName,
    BadSetting,
    CrucibleError,
    GuestRefused,
    GuestSilent,
    VolumeBusy,
    VolumeMissing,
    VolumeTaken,
    VolumeTooLarge,
)
from crucible.project.caches import CACHES, add_volumes
from crucible.sandbox import volume_use
from crucible.sandbox.mounts import Mount, parse_volume
from crucible.sandbox.processes import start_mark
from crucible.sandbox.records import SandboxRecord, State
from crucible.sandbox.spec import SandboxSpec
from crucible.sandbox.volumes import Unkept, Volumes
from crucible.values import replace

pytestmark = pytest.mark.usefixtures("run")


async def pieces(*data: bytes, error: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece
    if error is not None:
        raise error


def record(tmp_path: Path, *, state: State = "running", pid: int | None = None) -> SandboxRecord:
    return SandboxRecord(
        id="1", name="first", state=state, directory=tmp_path, created_at=0.0,
        spec=SandboxSpec(mounts=("shared:/shared:volume", "other:/other:volume-ro")),
        pid=pid, pid_started=(start_mark(pid) or "") if pid else "",
    )  # fmt: skip


async def test_what_was_kept_is_there_again(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path)
    assert volumes.all() == []
    volumes.create("shared")
    assert b"".join(volumes.content("shared")) == bytes(1024)
    await volumes.save("shared", pieces(b"one", b"two"))
    assert b"".join(volumes.content("shared")) == b"onetwo"
    assert [(volume.name, volume.size_bytes) for volume in volumes.all()] == [("shared", 6)]
    volumes.remove("shared")
    assert volumes.all() == []


@pytest.mark.parametrize("error, most", [(CrucibleError("the sandbox died"), 100), (None, 5)])
async def test_a_volume_that_could_not_be_kept_whole_is_as_it_was(
    tmp_path: Path, error: Exception | None, most: int
) -> None:
    volumes = Volumes(tmp_path)
    volumes.create("shared")
    await volumes.save("shared", pieces(b"old"))
    with pytest.raises(CrucibleError) as failed:
        await volumes.save("shared", pieces(b"new", b"more", error=error), most=most)
    assert error is not None or isinstance(failed.value, VolumeTooLarge)
    assert b"".join(volumes.content("shared")) == b"old"
    assert [path.name for path in (tmp_path / "volumes").iterdir()] == ["shared.tar"]


async def test_a_volume_that_was_removed_meanwhile_stays_removed(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path)
    volumes.create("shared")
    volumes.remove("shared")
    with pytest.raises(VolumeMissing):
        await volumes.save("shared", pieces(b"new"))
    assert volumes.all() == []


def test_names_are_checked_and_taken_once(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path)
    volumes.create("shared")
    with pytest.raises(VolumeTaken):
        volumes.create("shared")
    with pytest.raises(VolumeMissing):
        volumes.remove("nosuch")
    for name in ("../x", "a/b", "", ".hidden", "a\0"):
        with pytest.raises(BadName):
            volumes.create(name)


def claim(home: Path, own: SandboxRecord, *others: SandboxRecord, is_first: bool = True) -> None:
    volume_use.claim(own, lambda: [own, *others], home, is_first=is_first)


def test_a_second_writer_is_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    first = record(tmp_path, pid=os.getpid())
    second = replace(first, id="2", name="second")
    Volumes(tmp_path).create("other")
    claim(tmp_path, first, second)
    with pytest.raises(VolumeBusy, match="'first'"):
        claim(tmp_path, second, first)
    with pytest.raises(VolumeBusy, match="'first'"):
        volume_use.remove("shared", lambda: [first, second], tmp_path)
    claim(tmp_path, first, second)
    reader = replace(second, spec=SandboxSpec(mounts=("shared:/shared:volume-ro",)))
    claim(tmp_path, reader, first)


@pytest.mark.parametrize("state, has_process", [("stopped", True), ("running", False)])
def test_a_sandbox_that_does_not_run_holds_nothing(
    tmp_path: Path, state: State, has_process: bool
) -> None:
    Volumes(tmp_path).create("other")
    pid = os.getpid() if has_process else None
    first = record(tmp_path, state=state, pid=pid)
    second = replace(first, id="2", name="second", state="starting", pid=os.getpid())
    claim(tmp_path, first, second)
    claim(tmp_path, second, first)
    assert Volumes(tmp_path).writer("shared") == "2"
    claim_of_removed = replace(second, id="3", name="third")
    Volumes(tmp_path).set_writer("shared", "gone")
    claim(tmp_path, claim_of_removed)


def test_of_many_that_start_at_once_exactly_one_becomes_the_writer(tmp_path: Path) -> None:
    Volumes(tmp_path).create("other")
    first = record(tmp_path, state="starting", pid=os.getpid())
    racers = [replace(first, id=f"{number}", name=f"racer-{number}") for number in range(8)]
    together = threading.Barrier(len(racers))

    def race(own: SandboxRecord) -> bool:
        together.wait()
        try:
            volume_use.claim(own, lambda: racers, tmp_path, is_first=True)
        except VolumeBusy:
            return False
        return True

    with ThreadPoolExecutor(len(racers)) as pool:
        won = [
            own.id for own, has_won in zip(racers, pool.map(race, racers), strict=True) if has_won
        ]
    assert won == [Volumes(tmp_path).writer("shared")]


def test_a_missing_volume_is_made_at_the_first_start_and_only_for_its_writer(
    tmp_path: Path,
) -> None:
    own = record(tmp_path, pid=os.getpid())
    with pytest.raises(VolumeMissing, match="'other'"):
        claim(tmp_path, own)
    Volumes(tmp_path).create("other")
    claim(tmp_path, own)
    volume_use.remove("shared", lambda: [replace(own, state="stopped")], tmp_path)
    with pytest.raises(VolumeMissing, match="'shared'"):
        claim(tmp_path, own, is_first=False)
    with pytest.raises(VolumeMissing, match="'shared'"):
        volume_use.remove("shared", list, tmp_path)


def test_what_a_dead_writer_left_half_kept_goes_with_the_next_claim(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path)
    volumes.create("other")
    volumes.create("shared")
    half = tmp_path / "volumes" / ".shared.tar"
    half.write_bytes(b"half")
    assert [volume.name for volume in volumes.all()] == ["other", "shared"]
    claim(tmp_path, record(tmp_path, pid=os.getpid()))
    assert not half.exists()


async def test_files_that_were_not_kept_count_until_the_volume_is_another(tmp_path: Path) -> None:
    volumes, unkept = Volumes(tmp_path), Unkept(tmp_path)
    copied = volumes.create("shared")
    assert not unkept.has(copied)
    unkept.add(copied)
    unkept.add(volumes.create("other"))
    assert unkept.has(volumes.find("shared"))
    await volumes.save("shared", pieces(b"by somebody else"))
    assert not unkept.has(volumes.find("shared"))
    unkept.drop("shared")
    unkept.drop("nosuch")
    assert not unkept.has(copied)
    assert unkept.has(volumes.find("other"))


class Inside:
    """The machine of a sandbox with the volumes `one` and `two`, which does to them what it is told to."""

    def __init__(
        self, *, ending: Exception | None = None, sending: Exception | None = None
    ) -> None:
        self.files = self
        self.asked: list[str] = []
        self._ending = ending
        self._sending = sending

    async def end_processes(self, grace_s: float) -> None:
        self.asked.append(f"end within {grace_s}")
        if self._ending is not None:
            raise self._ending

    async def tar_out(self, root: bytes) -> AsyncIterator[bytes]:
        self.asked.append(root.decode())
        yield b"new"
        if self._sending is not None and root == b"/one":
            raise self._sending


async def kept(home: Path, inside: Inside) -> tuple[list[bytes], list[str]]:
    """What is in the two volumes afterwards, and what was told."""
    volumes, told = Volumes(home), list[str]()
    for name in ("one", "two"):
        volumes.create(name)
        await volumes.save(name, pieces(b"old"))
    spec = SandboxSpec(mounts=("one:/one:volume", "two:/two:volume", "other:/r:volume-ro"))
    held: Any = SimpleNamespace(machine=inside, record=replace(record(home), spec=spec))
    await volume_use.keep(held, home, lambda _, text: told.append(text), grace_s=3.0)
    return [b"".join(volumes.content(name)) for name in ("one", "two")], told


async def test_volumes_are_kept_once_the_processes_have_ended(tmp_path: Path) -> None:
    inside = Inside()
    assert await kept(tmp_path, inside) == ([b"new", b"new"], [])
    assert inside.asked == ["end within 3.0", "/one", "/two"]


async def test_an_older_agent_that_cannot_end_them_has_its_volumes_kept_too(tmp_path: Path) -> None:
    inside = Inside(ending=GuestRefused("bad-request", "unknown verb"))
    assert await kept(tmp_path, inside) == ([b"new", b"new"], [])


async def test_a_machine_that_does_not_answer_is_not_asked_for_its_files(tmp_path: Path) -> None:
    inside = Inside(ending=GuestSilent("first", 33))
    contents, told = await kept(tmp_path, inside)
    assert contents == [b"old", b"old"]
    assert len(told) == 2
    assert "'two' is as it was before: Sandbox 'first' did not answer" in told[1]
    assert len(inside.asked) == 1


async def test_one_volume_that_cannot_be_kept_does_not_take_the_next_with_it(
    tmp_path: Path,
) -> None:
    contents, told = await kept(tmp_path, Inside(sending=GuestRefused("io", "broken")))
    assert contents == [b"old", b"new"]
    assert told == ["warning: The volume 'one' is as it was before: broken"]


@pytest.mark.parametrize(
    "text, mount",
    [
        ("a:/b", Mount("a", "/b", "volume")),
        ("a:/b:rw", Mount("a", "/b", "volume")),
        ("a:/b:ro", Mount("a", "/b", "volume-ro")),
    ],
)
def test_a_volume_is_read(text: str, mount: Mount) -> None:
    assert parse_volume(text) == mount


@pytest.mark.parametrize("text", ["", "a", "a:b", "../a:/b", ":/b", "a:/etc", "a:/b:/c", "a:/b:wr"])
def test_what_names_no_volume_is_refused(text: str) -> None:
    with pytest.raises(
        (BadSetting, BadName), match=r"volume|absolute path|cannot be replaced"
    ) as refused:
        parse_volume(text)
    assert "SOURCE" not in refused.value.hint


def test_caches_are_volumes_with_their_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path))
    fields: dict[str, object] = {}
    add_volumes(fields, ["mine:/mine"], list(CACHES))
    SandboxSpec(**fields)  # type: ignore[arg-type]
    assert "cache-pip:/var/cache/crucible/pip:volume" in fields["mounts"]  # type: ignore[operator]
    assert fields["environment"]["PIP_CACHE_DIR"] == "/var/cache/crucible/pip"  # type: ignore[index]
    assert Volumes(tmp_path).all() == [], "only a sandbox that starts makes them"
    with pytest.raises(BadSetting, match="no cache of 'apt'"):
        add_volumes({}, [], ["apt"])
