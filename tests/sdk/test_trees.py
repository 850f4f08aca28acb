"""Directories both ways; an archive that a hostile sandbox made writes nothing outside of its directory."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from crucible_client import trees
from crucible_client.errors import PathRefused


def archive(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for entry, data in entries:
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return file


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


def test_a_tree_comes_back_as_it_went(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "sub").mkdir()
    (source / "sub" / "ü name").write_bytes(b"\0" * 100_000)
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o755)
    (source / "link").symlink_to("sub")
    os.mkfifo(source / "fifo")
    with trees.packed(source) as file:
        trees.unpack(file, tmp_path / "target")
    target = tmp_path / "target"
    assert (target / "sub" / "ü name").read_bytes() == b"\0" * 100_000
    assert os.access(target / "run", os.X_OK)
    assert (target / "link").readlink() == Path("sub")
    assert (target / "empty").is_dir()
    assert not (target / "fifo").exists(), "what is no file is left out"


@pytest.mark.parametrize(
    "hostile",
    [
        [(entry("../escaped"), b"x")],
        [(entry("a/../../escaped"), b"x")],
        [(entry("link", tarfile.SYMTYPE, "../.."), b"")],
        [(entry("link", tarfile.SYMTYPE, "/etc"), b"")],
        [(entry("link", tarfile.LNKTYPE, "../../secret"), b"")],
        [(entry("null", tarfile.CHRTYPE), b"")],
        [(entry("fifo", tarfile.FIFOTYPE), b"")],
        [(entry("in"), b"x"), (entry("in/below"), b"x")],
    ],
    ids=range(8),
)
def test_nothing_leaves_the_directory(
    tmp_path: Path, hostile: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    (tmp_path / "secret").write_text("of the host")
    with pytest.raises(PathRefused):
        trees.unpack(archive(*hostile), tmp_path / "deep" / "target")
    assert {path.name for path in tmp_path.iterdir()} == {"secret", "deep"}
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"target"}


def test_an_absolute_name_stays_inside(tmp_path: Path) -> None:
    name = f"{tmp_path}/outside"
    trees.unpack(archive((entry(name), b"x")), tmp_path / "target")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("data", [b"", b"no tar", b"\xff" * 2000])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(PathRefused):
        trees.unpack(io.BytesIO(data), tmp_path / "target")
