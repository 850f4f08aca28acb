"""What state takes up, what of it may go, and that nothing else goes."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from crucible.config import Config
from crucible.diagnosis.prune import find_prunable, prune
from crucible.diagnosis.uninstall import Removal, check_ours, uninstall
from crucible.diagnosis.usage import Usage, disk_usage, size_of
from crucible.errors import PathRefused, Refused
from crucible.sandbox import processes
from crucible.sandbox.records import SandboxRecord, open_records, sandbox_directory
from crucible.sandbox.spec import SandboxSpec

LONG_AGO = time.time() - 100_000


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "home").mkdir()
    return Config(home=tmp_path / "home")


def put(path: Path, size: int = 10_000, *, is_old: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    if is_old:
        age(path)
    return path


def age(path: Path) -> None:
    for inner in (path, *path.rglob("*")):
        os.utime(inner, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def add_sandbox(config: Config, record_id: str, **fields: object) -> SandboxRecord:
    record = SandboxRecord(
        id=record_id,
        name=f"box-{record_id}",
        state="stopped",
        spec=SandboxSpec(),
        directory=sandbox_directory(config.home, record_id),
        created_at=LONG_AGO,
        **fields,  # type: ignore[arg-type]
    )
    records = open_records(config.home)
    records.add(record)
    records.close()
    put(record.directory / "disk-1.qcow2")
    age(record.directory)
    return record


def usage(config: Config, kind: str) -> Usage:
    (found,) = [entry for entry in disk_usage(config) if entry.kind == kind]
    return found


def prunable_names(config: Config) -> list[str]:
    return sorted(str(found.path.relative_to(config.home)) for found in find_prunable(config))


def test_a_home_that_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert all(entry.size_bytes == 0 for entry in disk_usage(Config(home=tmp_path / "none")))
    assert prune(Config(home=tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()


def test_every_kind_is_told_apart(config: Config) -> None:
    put(config.home / "images/base/abc/root.squashfs", 100_000)
    put(config.home / "templates/key/ram", 50_000)
    put(config.home / "snapshots/one/ram", 20_000)
    assert usage(config, "images").size_bytes >= 100_000
    assert usage(config, "templates").items == 1
    assert usage(config, "snapshots").size_bytes >= 20_000


def test_a_linked_file_is_counted_once_and_as_its_makers(config: Config) -> None:
    root = put(config.home / "images/base/abc/root.squashfs", 1_000_000)
    add_sandbox(config, "a")
    os.link(root, config.home / "sandboxes/a/root.squashfs")
    assert usage(config, "sandboxes").size_bytes < 200_000
    assert usage(config, "images").size_bytes >= 1_000_000


def test_holes_cost_nothing(config: Config) -> None:
    path = put(config.home / "blanks/8192.raw", 1)
    os.truncate(path, 1 << 33)
    assert usage(config, "templates").size_bytes < 1 << 20


def test_links_are_not_followed(config: Config, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere/big", 5_000_000)
    (config.home / "scratch").mkdir()
    (config.home / "scratch/link").symlink_to(tmp_path / "elsewhere")
    assert usage(config, "cache").size_bytes < 100_000


def test_what_a_dead_process_left_in_scratch_goes_and_what_is_fresh_stays(config: Config) -> None:
    put(config.home / "scratch/probe-old/disk")
    age(config.home / "scratch/probe-old")
    put(config.home / "scratch/probe-new/disk", is_old=False)
    assert [found.path.name for found in prune(config)] == ["probe-old"]
    assert [path.name for path in (config.home / "scratch").iterdir()] == ["probe-new"]


def test_a_link_in_scratch_goes_without_what_it_points_to(config: Config, tmp_path: Path) -> None:
    victim = put(tmp_path / "elsewhere/victim")
    (config.home / "scratch").mkdir()
    (config.home / "scratch/link").symlink_to(tmp_path / "elsewhere")
    os.utime(config.home / "scratch/link", (LONG_AGO, LONG_AGO), follow_symlinks=False)
    age(tmp_path / "elsewhere")
    prune(config)
    assert victim.exists()
    assert not (config.home / "scratch/link").is_symlink()


def test_older_bundles_go_unless_a_sandbox_names_them(config: Config) -> None:
    for name in ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"):
        put(config.home / "images/base" / name / "root.squashfs")
    put(config.home / "images/base/current").write_text("cccccccccccc\n")
    add_sandbox(config, "a", image_digest="bbbbbbbbbbbb" + "0" * 52)
    assert prunable_names(config) == ["images/base/aaaaaaaaaaaa"]


def test_a_shelf_that_is_being_built_on_is_left_alone(config: Config) -> None:
    put(config.home / "images/base/.new-xyz/root.squashfs")
    put(config.home / "images/base/current").write_text("cccccccccccc\n")
    lock = put(config.home / "locks/image-base", 0)
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert prunable_names(config) == []
    assert prunable_names(config) == ["images/base/.new-xyz"]


def test_a_shelf_without_a_pointer_is_left_alone(config: Config) -> None:
    put(config.home / "images/base/abc/root.squashfs")
    assert prunable_names(config) == []


def test_templates_are_kept_where_it_cannot_be_told_what_is_current(config: Config) -> None:
    put(config.home / "templates/key/ram")
    assert prunable_names(config) == []


def test_directories_without_a_record_go_and_those_with_one_stay(config: Config) -> None:
    add_sandbox(config, "known")
    put(config.home / "sandboxes/stray/disk-1.qcow2")
    put(config.home / "snapshots/stray/ram")
    for kind in ("sandboxes", "snapshots"):
        age(config.home / kind / "stray")
    prune(config)
    assert [path.name for path in (config.home / "sandboxes").iterdir()] == ["known"]
    assert list((config.home / "snapshots").iterdir()) == []
    assert (config.home / "sandboxes/known/disk-1.qcow2").exists()


def test_a_dead_temporary_sandbox_goes_with_its_record(config: Config) -> None:
    add_sandbox(config, "dead", is_temporary=True, holder_pid=2**22, holder_started="x:1")
    prune(config)
    assert not (config.home / "sandboxes/dead").exists()
    records = open_records(config.home)
    assert records.sandboxes() == []
    records.close()


def test_what_can_be_freed_counts_no_file_that_lives_on_elsewhere(config: Config) -> None:
    kept = put(config.home / "images/base/old/root.squashfs", 1_000_000)
    (config.home / "sandboxes").mkdir()
    os.link(kept, config.home / "sandboxes/root.squashfs")
    assert size_of(config.home / "images/base/old") < 100_000


def yes(removal: Removal) -> bool:
    return True


def test_uninstalling_removes_everything_after_asking(config: Config) -> None:
    add_sandbox(config, "a")
    put(config.home / "kernels/current")
    asked: list[Removal] = []

    def agree(removal: Removal) -> bool:
        asked.append(removal)
        return True

    assert uninstall(config, agree) is not None
    assert asked[0].sandboxes == ("box-a",)
    assert not config.home.exists()


def test_uninstalling_without_consent_removes_nothing(config: Config) -> None:
    put(config.home / "kernels/current")
    assert uninstall(config, lambda removal: False) is None
    assert (config.home / "kernels/current").exists()


def test_uninstalling_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert uninstall(Config(home=tmp_path / "none"), yes) is None


@pytest.mark.parametrize("name", ["thesis.odt", ".ssh", "src"])
def test_a_directory_with_anything_else_in_it_is_refused(config: Config, name: str) -> None:
    put(config.home / "kernels/current")
    put(config.home / name)
    with pytest.raises(PathRefused, match=r"never made"):
        uninstall(config, yes)
    assert (config.home / name).exists()


def test_a_directory_that_only_might_be_ours_is_refused(config: Config) -> None:
    put(config.home / "cache/x")
    with pytest.raises(PathRefused, match="does not look like"):
        uninstall(config, yes)


def test_a_link_is_refused(config: Config, tmp_path: Path) -> None:
    put(config.home / "kernels/current")
    (tmp_path / "link").symlink_to(config.home)
    with pytest.raises(PathRefused):
        uninstall(Config(home=tmp_path / "link"), yes)


def test_the_users_home_and_the_root_are_refused(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(config.home))
    put(config.home / "kernels/current")
    with pytest.raises(PathRefused):
        check_ours(config.home)
    with pytest.raises(PathRefused):
        check_ours(Path("/"))


def test_a_command_that_still_runs_stops_the_uninstall(config: Config) -> None:
    pid = os.getpid()
    mark = processes.start_mark(pid) or ""
    add_sandbox(config, "a", is_temporary=True, holder_pid=pid, holder_started=mark)
    with pytest.raises(Refused, match="in use by process"):
        uninstall(config, yes)
    assert (config.home / "sandboxes/a").exists()
