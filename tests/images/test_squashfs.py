"""Packing: the same tar gives the same bytes, owned by root whoever packs, and wrong bytes are found out."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from crucible.errors import BuildFailed
from crucible.images import squashfs

NEWEST = 1_700_000_000


def make_tar(path: Path, *, later: int = 0) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, mode in (("./", 0o755), ("./etc", 0o755), ("./closed", 0o700)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode, NEWEST - 5
            tar.addfile(entry)
        for name, data, mode in (
            ("./etc/passwd", b"root:x:0:0\n", 0o644),
            ("./etc/shadow", b"", 0o000),
            ("./big", bytes(range(256)) * 1000, 0o4755),
            ("./also big", bytes(range(256)) * 999 + b"end", 0o644),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode, NEWEST + later
            tar.addfile(entry, io.BytesIO(data))
    return path


def pack(archive: Path, target: Path) -> Path:
    as_root = () if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user")
    squashfs.pack(archive, target, newest_s=NEWEST, as_root=as_root)
    return target


def test_times_of_the_build_do_not_change_the_bytes(tmp_path: Path) -> None:
    first = pack(make_tar(tmp_path / "a.tar", later=10), tmp_path / "a.squashfs")
    second = pack(make_tar(tmp_path / "b.tar", later=5000), tmp_path / "b.squashfs")
    assert first.read_bytes() == second.read_bytes()


def test_what_was_packed_is_read_back(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a.tar")
    squashfs.compare(archive, pack(archive, tmp_path / "a.squashfs"), tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()


def test_the_root_directory_and_modes_are_kept(tmp_path: Path) -> None:
    packed = pack(make_tar(tmp_path / "a.tar"), tmp_path / "a.squashfs")
    listed = subprocess.run(
        ["unsquashfs", "-lln", str(packed)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert listed[0].startswith("drwxr-xr-x 0/0")
    assert any(line.startswith("-rwsr-xr-x 0/0") and line.endswith("/big") for line in listed)


def test_a_wrong_byte_in_the_packed_file_is_found(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a.tar")
    packed = pack(archive, tmp_path / "a.squashfs")
    data = packed.read_bytes()
    packed.write_bytes(data.replace(b"root:x:0:0\n", b"root:x:0:1\n"))
    with pytest.raises(BuildFailed, match="/etc/passwd"):
        squashfs.compare(archive, packed, tmp_path / "scratch")
