"""Whatever tree is packed, the same tree comes out."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crucible.errors import PathRefused
from crucible.sandbox.session import Entry
from crucible.sandbox.workspace.copying import plan_copy_in, plan_copy_out
from crucible.sandbox.workspace.packing import pack_tree
from crucible.sandbox.workspace.unpacking import Unpacker

Picture = dict[str, tuple[int, int, bytes]]

_NAMES = st.binary(min_size=1, max_size=120).map(
    lambda name: name.replace(b"/", b"_").replace(b"\0", b"_")
)
_NAMES = _NAMES.filter(
    lambda name: name not in (b".", b"..") and not name.startswith(b".crucible-new-")
)
_MODES = st.sampled_from([0o600, 0o644, 0o755, 0o400, 0o777, 0o000])
_FILES = st.tuples(st.just("file"), _MODES, st.binary(max_size=2000))
_LINKS = st.tuples(st.just("link"), st.just(0o777), _NAMES)
_TREES = st.recursive(
    st.dictionaries(_NAMES, st.one_of(_FILES, _LINKS), max_size=4),
    lambda inner: st.dictionaries(
        _NAMES, st.one_of(_FILES, _LINKS, st.tuples(st.just("tree"), _MODES, inner)), max_size=4
    ),
    max_leaves=12,
)


def grow(directory: Path, tree: dict[bytes, tuple[str, int, object]]) -> None:
    for name, (kind, mode, content) in tree.items():
        path = directory / os.fsdecode(name)
        if kind == "link":
            assert isinstance(content, bytes)
            path.symlink_to(os.fsdecode(content))
        elif kind == "file":
            assert isinstance(content, bytes)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(descriptor, content)
            os.fchmod(descriptor, mode | 0o400)
            os.close(descriptor)
        else:
            assert isinstance(content, dict)
            path.mkdir()
            grow(path, content)
            path.chmod(mode | 0o700)


def picture(top: Path) -> Picture:
    found: Picture = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        else:
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(top))] = (status.st_mode, int(status.st_mtime), content)
    return found


def copy(source: Path, target: Path) -> None:
    with Unpacker(target) as unpacker:
        for chunk in pack_tree(source):
            unpacker.feed(chunk)
        unpacker.finish()


@given(tree=_TREES)
@settings(max_examples=100, deadline=None)
def test_any_tree_survives(
    tree: dict[bytes, tuple[str, int, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("trip")
    source, target = base / "source", base / "target"
    source.mkdir()
    target.mkdir()
    grow(source, tree)
    copy(source, target)
    assert picture(target) == picture(source)


def test_a_large_file_survives(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "big").write_bytes(os.urandom(5_000_003))
    (source / "after").write_bytes(b"x")
    copy(source, target)
    assert picture(target) == picture(source)


def entry(type_: str) -> Entry:
    return Entry(
        name=b"x",
        type="directory" if type_ == "directory" else "file",
        mode=0o755,
        size=0,
        mtime_ns=0,
        uid=0,
        gid=0,
        target=b"",
        sha256=b"",
    )


def test_copying_out_goes_into_a_directory(tmp_path: Path) -> None:
    plan = plan_copy_out(b"/work/data", str(tmp_path))
    assert (plan.root, plan.names) == (b"/work", (b"data",))
    assert (plan.directory, plan.top, plan.rename) == (tmp_path, b"data", None)


def test_copying_out_takes_the_name_of_what_is_not_there(tmp_path: Path) -> None:
    plan = plan_copy_out(b"/data/", str(tmp_path / "new"))
    assert (plan.root, plan.names) == (b"/", (b"data",))
    assert (plan.directory, plan.top, plan.rename) == (tmp_path, b"data", b"new")


@pytest.mark.parametrize("path", [b"/work/.", b"/", b"/work/.."])
def test_copying_out_a_content_makes_its_directory(tmp_path: Path, path: bytes) -> None:
    plan = plan_copy_out(path, str(tmp_path / "new"))
    assert (plan.names, plan.top) == ((), None)
    with plan.unpacker() as unpacker:
        unpacker.feed(bytes(1024))
        unpacker.finish()
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize("host", ["new/", "missing/new", "file/"])
def test_copying_out_to_a_place_that_is_not_there_is_refused(tmp_path: Path, host: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(PathRefused):
        plan_copy_out(b"/work/data", f"{tmp_path}/{host}")


def test_a_tree_is_not_copied_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/f").write_text("x")
    (tmp_path / "file").write_text("mine")
    plan = plan_copy_out(b"/source", str(tmp_path / "file"))
    archive = b"".join(pack_tree(tmp_path / "source", name="source"))
    with plan.unpacker() as unpacker, pytest.raises(PathRefused):
        unpacker.feed(archive)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("path", [b"relative", b"", b"/a\0b"])
def test_a_guest_path_must_be_absolute(path: bytes, tmp_path: Path) -> None:
    with pytest.raises(PathRefused):
        plan_copy_out(path, str(tmp_path))


def test_copying_in_goes_into_a_directory_under_the_own_name(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    plan = plan_copy_in(str(tmp_path / "tree"), b"/work", entry("directory"))
    assert (plan.root, plan.name) == (b"/work", "tree")


def test_copying_in_takes_the_name_of_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    plan = plan_copy_in(str(tmp_path / "tree"), b"/work/new", None)
    assert (plan.root, plan.name) == (b"/work", "new")


def test_copying_in_a_content_leaves_the_directory_out(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    plan = plan_copy_in(f"{tmp_path}/.", b"/work", entry("directory"))
    assert (plan.root, plan.name) == (b"/work", None)
    assert b"".join(plan.packing()).startswith(b"f\0")


def test_copying_in_replaces_a_file_by_a_file_only(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    plan = plan_copy_in(str(tmp_path / "f"), b"/work/g", entry("file"))
    assert (plan.root, plan.name) == (b"/work", "g")
    with pytest.raises(PathRefused):
        plan_copy_in(str(tmp_path), b"/work/g", entry("file"))


def test_copying_in_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathRefused):
        plan_copy_in(str(tmp_path / "nothing"), b"/work", None)


def test_copying_a_file_in_to_a_missing_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(PathRefused):
        plan_copy_in(str(tmp_path / "f"), b"/work/new/", None)


def test_the_directory_above_has_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert plan_copy_in(f"{tmp_path}/a/..", b"/work", entry("directory")).name == tmp_path.name
