"""A tree of the host becomes an archive that any tar reads."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import stat
import tarfile
from pathlib import Path

import pytest
from tests.conftest import unprivileged

from crucible.errors import PathRefused
from crucible.sandbox.workspace.ignore import load_ignore, parse_ignore
from crucible.sandbox.workspace.packing import CHUNK_BYTES, Packing, pack_tree


def members(packing: Packing) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(packing))) as archive:
        return {member.name: member for member in archive}


def content(packing: Packing, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(b"".join(packing))) as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


def test_a_directory_without_a_name_comes_as_its_content(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_text("x")
    assert list(members(pack_tree(tmp_path))) == ["inner", "inner/file"]


def test_a_name_becomes_the_topmost_entry(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert list(members(pack_tree(tmp_path, name="top"))) == ["top", "top/file"]


def test_a_file_comes_under_its_own_name_or_the_given_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert content(pack_tree(tmp_path / "file"), "file") == b"abc"
    assert content(pack_tree(tmp_path / "file", name="other"), "other") == b"abc"


def test_a_directory_that_becomes_a_link_while_it_is_packed_is_not_followed(tmp_path: Path) -> None:
    secrets, tree = tmp_path / "secrets", tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "z").write_bytes(bytes(CHUNK_BYTES))
    secrets.mkdir()
    (secrets / "key").write_text("stolen")
    packing = pack_tree(tree)
    chunks = [next(packing)]
    (tree / "inner").rmdir()
    (tree / "inner").symlink_to(secrets)
    chunks += list(packing)
    assert b"stolen" not in b"".join(chunks)
    assert [skipped.why for skipped in packing.skipped] == ["it was replaced while it was packed"]


def test_a_source_that_becomes_a_link_before_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets, tree = tmp_path / "secrets", tmp_path / "tree"
    secrets.mkdir()
    (secrets / "key").write_text("stolen")
    tree.mkdir()
    packing = pack_tree(tree)
    look = os.lstat

    def look_and_swap(path: bytes) -> os.stat_result:
        status = look(path)
        tree.rmdir()
        tree.symlink_to(secrets)
        return status

    monkeypatch.setattr(os, "lstat", look_and_swap)
    with pytest.raises(PathRefused, match="was replaced"):
        list(packing)


def test_an_empty_directory_is_a_valid_archive(tmp_path: Path) -> None:
    assert members(pack_tree(tmp_path)) == {}


def test_symbolic_links_are_kept_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "absolute").symlink_to("/etc/passwd")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "up").symlink_to("..")
    found = members(pack_tree(tmp_path))
    assert {name: member.linkname for name, member in found.items()} == {
        "absolute": "/etc/passwd",
        "dangling": "nowhere",
        "up": "..",
    }


def test_a_link_named_as_the_source_is_packed_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert members(pack_tree(tmp_path / "link"))["link"].issym()


def test_hard_links_are_kept(tmp_path: Path) -> None:
    (tmp_path / "first").write_bytes(b"x" * 1000)
    os.link(tmp_path / "first", tmp_path / "second")
    found = members(pack_tree(tmp_path, name="top"))
    assert found["top/second"].islnk()
    assert found["top/second"].linkname == "top/first"


def test_modes_are_kept_and_owners_are_not(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("x")
    (tmp_path / "script").chmod(0o751)
    member = members(pack_tree(tmp_path))["script"]
    assert (member.mode, member.uid, member.gid) == (0o751, 0, 0)


def test_what_is_no_file_is_skipped_and_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        packing = pack_tree(tmp_path)
        assert members(packing) == {}
    assert sorted(Path(skipped.path).name for skipped in packing.skipped) == ["pipe", "socket"]


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "with space",
        "ünïcode",
        "new\nline",
        "e" * 255,
        "/".join(["d" * 60] * 4),
        "/".join(["d" * 200] * 12),
        "/".join(["d" * 100, "e" * 100]),
        "/".join(["d" * 155, "e" * 100]),
        "/".join(["d" * 154, "e" * 99]),
    ],
)
def test_names_of_any_length_survive(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"content")
    assert content(pack_tree(tmp_path), name) == b"content"


def test_long_link_targets_survive(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("t" * 1000)
    assert members(pack_tree(tmp_path))["link"].linkname == "t" * 1000


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).write_bytes(b"x")
    assert list(members(pack_tree(tmp_path))) == ["\udcff\udcfe"]


def test_a_file_that_shrinks_while_it_is_read_leaves_the_archive_whole(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * (4 * CHUNK_BYTES))
    (tmp_path / "next").write_bytes(b"next")
    packing = pack_tree(tmp_path)
    first = next(packing)
    os.truncate(big, CHUNK_BYTES + 5)
    with tarfile.open(fileobj=io.BytesIO(first + b"".join(packing))) as archive:
        assert archive.getnames() == ["big", "next"]
        last = archive.extractfile("next")
        assert last is not None
        assert last.read() == b"next"
    assert "shrank" in packing.skipped[0].why


def test_a_file_that_grows_while_it_is_read_leaves_the_archive_whole(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * (4 * CHUNK_BYTES))
    packing = pack_tree(tmp_path)
    first = next(packing)
    with big.open("ab") as file:
        file.write(b"y" * CHUNK_BYTES)
    with tarfile.open(fileobj=io.BytesIO(first + b"".join(packing))) as archive:
        assert archive.getmember("big").size == 4 * CHUNK_BYTES
        assert archive.getnames() == ["big"]


def test_a_sparse_file_beyond_eight_gigabytes_gets_a_true_size(tmp_path: Path) -> None:
    size = 9 << 30
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(size)
    first = next(pack_tree(tmp_path))
    with tarfile.open(fileobj=io.BytesIO(first + bytes(1024)), mode="r|") as archive:
        member = archive.next()
    assert member is not None
    assert member.size == size


def test_chunks_are_of_bounded_size(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(3_000_001))
    for number in range(300):
        (tmp_path / f"small{number}").write_bytes(b"x" * 5000)
    assert max(len(chunk) for chunk in pack_tree(tmp_path)) <= 2 * CHUNK_BYTES + 4096


def test_an_unreadable_file_is_skipped_and_named(public_directory: Path) -> None:
    (public_directory / "secret").write_text("x")
    (public_directory / "secret").chmod(0)
    with unprivileged():
        packing = pack_tree(public_directory)
        assert members(packing) == {}
    assert packing.skipped[0].why == "Permission denied"


def test_a_missing_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathRefused):
        next(pack_tree(tmp_path / "nothing"))


def test_ignored_files_stay_at_home(tmp_path: Path) -> None:
    (tmp_path / ".crucibleignore").write_text(
        "# no\n*.log\n!keep.log\n/build/\nnode_modules/\ndoc/**/x\n"
    )
    for name in (
        "a.log",
        "keep.log",
        "build/out",
        "src/build/out",
        "src/node_modules/m",
        "doc/a/b/x",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    files = [
        name
        for name, member in members(pack_tree(tmp_path, ignore=load_ignore(tmp_path))).items()
        if member.isfile()
    ]
    assert sorted(files) == [".crucibleignore", "keep.log", "src/build/out"]


@pytest.mark.parametrize(
    "pattern, name, is_covered",
    [
        ("*.py", b"a/b.py", True),
        ("/a", b"b/a", False),
        ("a/b", b"a/b", True),
        ("a/b", b"c/a/b", False),
        ("[ab].c", b"a.c", True),
        ("[!ab].c", b"a.c", False),
        ("?", b"/", False),
        ("[", b"[", True),
        ("**", b"any/thing", True),
        ("a.b", b"axb", False),
    ],
)
def test_patterns_mean_what_git_means(pattern: str, name: bytes, is_covered: bool) -> None:
    assert parse_ignore([pattern]).covers(name, is_directory=False) is is_covered


def test_the_sticky_file_type_bits_do_not_leak_into_the_mode(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert members(pack_tree(tmp_path))["file"].mode & stat.S_IFREG == 0


def test_the_baseline_is_made_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir(mode=0o750)
    (tmp_path / "dir/file").write_bytes(b"abc")
    os.link(tmp_path / "dir/file", tmp_path / "same")
    (tmp_path / "link").symlink_to("dir")
    packing = pack_tree(tmp_path, name=".", hashed=True)
    b"".join(packing)
    entries = packing.manifest().entries
    assert list(entries) == [b"dir", b"link", b"same", b"dir/file"]
    assert entries[b"dir/file"].sha256 == hashlib.sha256(b"abc").digest()
    assert entries[b"same"].sha256 == entries[b"dir/file"].sha256
    assert (entries[b"dir"].type, entries[b"dir"].mode) == ("directory", 0o750)
    assert (entries[b"link"].type, entries[b"link"].target) == ("symlink", b"dir")


def test_the_baseline_knows_what_was_sent_of_a_file_that_shrank(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * (4 * CHUNK_BYTES))
    packing = pack_tree(tmp_path, hashed=True)
    next(packing)
    os.truncate(big, 0)
    b"".join(packing)
    sent = b"x" * CHUNK_BYTES + bytes(3 * CHUNK_BYTES)
    assert packing.manifest().entries[b"big"].sha256 == hashlib.sha256(sent).digest()
