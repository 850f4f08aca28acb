"""A machine at rest is checked before it is used: whatever was changed is damage."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.backends.saved_machines import make_saved

from crucible.backends.qemu import saved
from crucible.errors import TemplateDamaged

FILES = ["ram", "state", "disk-1.qcow2"]


def change_manifest(directory: Path, **changes: object) -> None:
    path = directory / saved.MANIFEST_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_was_described_is_loaded(tmp_path: Path) -> None:
    machine = make_saved(tmp_path)
    assert saved.load(tmp_path) == machine
    saved.verify(tmp_path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("way", ["cut", "gone", "touched", "grown"])
def test_a_file_that_changed_is_damage(tmp_path: Path, name: str, way: str) -> None:
    make_saved(tmp_path)
    path = tmp_path / name
    match way:
        case "cut":
            os.truncate(path, path.stat().st_size // 2)
        case "gone":
            path.unlink()
        case "touched":
            os.utime(path, (1, 1))
        case "grown":
            with path.open("ab") as file:
                file.write(b"x")
    with pytest.raises(TemplateDamaged):
        saved.load(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_byte_that_changed_unseen_is_found_by_reading_all(tmp_path: Path, name: str) -> None:
    make_saved(tmp_path)
    path = tmp_path / name
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 3)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(TemplateDamaged):
        saved.verify(tmp_path)


def test_a_layer_the_manifest_does_not_name_is_found_by_reading_all(tmp_path: Path) -> None:
    make_saved(tmp_path)
    (tmp_path / "disk-2.qcow2").write_bytes(b"smuggled in")
    with pytest.raises(TemplateDamaged):
        saved.verify(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "3", '"x"', '{"format": 1}', '{"format": 2}', '{"format": 99, "files": {}}', "[" * 100_000],
    ids=range(10),
)  # fmt: skip
def test_a_manifest_that_is_none_is_damage(tmp_path: Path, text: str) -> None:
    make_saved(tmp_path)
    (tmp_path / saved.MANIFEST_FILE).write_text(text)
    with pytest.raises(TemplateDamaged):
        saved.load(tmp_path)


def test_a_manifest_that_is_no_text_is_damage(tmp_path: Path) -> None:
    make_saved(tmp_path)
    (tmp_path / saved.MANIFEST_FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TemplateDamaged):
        saved.load(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_mib": "512"},
        {"memory_mib": -1},
        {"memory_mib": 1 << 40},
        {"memory_mib": True, "cpus": 0},
        {"cpus": None},
        {"disk_mib": 1.5},
        {"vmm": 7},
        {"files": []},
        {"files": {"ram": None}},
        {"files": {"ram": {}}},
        {"files": {"../../etc/passwd": {"size": 1, "mtime_ns": 1, "sha256": ""}}},
    ],
    ids=range(11),
)  # fmt: skip
def test_a_manifest_with_values_of_another_kind_is_damage(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    make_saved(tmp_path)
    change_manifest(tmp_path, **changes)
    with pytest.raises(TemplateDamaged):
        saved.load(tmp_path)
