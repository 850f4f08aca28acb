"""Volumes: whole or as they were, and one writer at a time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crucible.errors import (
    BadName,
    BadSetting,
    CrucibleError,
    VolumeBusy,
    VolumeMissing,
    VolumeTaken,
    VolumeTooLarge,
)
from crucible.project.caches import CACHES, add_volumes
from crucible.sandbox.mounts import Mount, parse_volume
from crucible.sandbox.processes import start_mark
from crucible.sandbox.records import SandboxRecord, State
from crucible.sandbox.spec import SandboxSpec
from crucible.sandbox.volumes import Volumes, refuse_second_writer

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


def test_a_second_writer_is_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    holder = record(tmp_path, pid=os.getpid())
    with pytest.raises(VolumeBusy, match="'first'"):
        refuse_second_writer("shared", [holder], own_id="2")
    refuse_second_writer("shared", [holder], own_id="1")
    refuse_second_writer("other", [holder], own_id="2")


@pytest.mark.parametrize("state, has_process", [("stopped", True), ("running", False)])
def test_a_sandbox_that_does_not_run_holds_nothing(
    tmp_path: Path, state: State, has_process: bool
) -> None:
    pid = os.getpid() if has_process else None
    refuse_second_writer("shared", [record(tmp_path, state=state, pid=pid)], own_id="2")


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
    with pytest.raises((BadSetting, BadName)):
        parse_volume(text)


def test_caches_are_volumes_with_their_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path))
    fields: dict[str, object] = {}
    add_volumes(fields, ["mine:/mine"], list(CACHES))
    SandboxSpec(**fields)  # type: ignore[arg-type]
    assert "cache-pip:/var/cache/crucible/pip:volume" in fields["mounts"]  # type: ignore[operator]
    assert fields["environment"]["PIP_CACHE_DIR"] == "/var/cache/crucible/pip"  # type: ignore[index]
    assert len(Volumes(tmp_path).all()) == 1 + len(CACHES)
    with pytest.raises(BadSetting, match="no cache of 'apt'"):
        add_volumes({}, [], ["apt"])
    with pytest.raises(VolumeMissing):
        add_volumes({}, ["nosuch:/x:ro"], [])
