"""Reading a root back: what either packer put in comes out, and whatever else it is given is refused."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.images.layers.packing import Item, Seen, read_back, squash, tar_of

from crucible.images import squashfs
from crucible.images.layers.headers import Kind
from crucible.images.layers.unsquash import NotReadable, Squashed

BLOCK = 1 << 16
NEWEST = 1_700_000_000
ITEMS = [
    Item("etc", "directory", mode=0o755),
    Item("etc/empty"),
    Item("etc/passwd", data=b"root:x:0:0\n", mode=0o4755, uid=70_000, gid=5, mtime=NEWEST - 1),
    Item("etc/whole", data=os.urandom(2 * BLOCK)),
    Item("etc/more", data=os.urandom(3 * BLOCK + 1)),
    Item("etc/words", data=b"word " * BLOCK),
    Item("etc/zeros", data=bytes(2 * BLOCK) + b"end"),
    Item("etc/secret", data=b"x", mode=0o000),
    Item("fifo", "fifo", mode=0o600),
    Item("link", "symlink", target="/etc/passwd", mode=0o777, uid=3),
    Item("long", "symlink", target="x" * 4000, mode=0o777),
    Item("many", "directory", mode=0o700),
    # Lists of several blocks, which are cut anywhere: also within a name.
    *(Item(f"many/{number:04}-{'n' * 100}", data=b"%d" % number) for number in range(700)),
    Item("na\u00efve", data=b"name"),
    Item("second", "link", target="etc/passwd"),
]


def pack(directory: Path, *options: str) -> Path:
    """As images that are made of packages are; or with other options."""
    archive, target = directory / "root.tar", directory / "packed.squashfs"
    archive.write_bytes(tar_of(ITEMS))
    if options:
        with archive.open("rb") as tar:
            argv = ["sqfstar", *options, "-quiet", "-no-progress", str(target)]
            subprocess.run(argv, stdin=tar, check=True, capture_output=True)
    else:
        as_root = () if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user")
        squashfs.pack(archive, target, newest_s=NEWEST, as_root=as_root)
    return target


def seen(path: Path) -> dict[str, Seen]:
    with Squashed(path) as root:
        found = [(entry, b"".join(read())) for entry, read in root.entries()]
    assert [entry.parts for entry, _ in found] == sorted(entry.parts for entry, _ in found)
    assert all(len(data) == entry.size for entry, data in found if entry.kind is not Kind.LINK)
    return {
        b"/".join(entry.parts).decode(): Seen(
            kind={Kind.SYMLINK: "symlink", Kind.LINK: "link"}.get(entry.kind, entry.kind.value),
            mode=entry.mode,
            uid=entry.uid,
            gid=entry.gid,
            mtime_s=entry.mtime_s,
            data=b"" if entry.kind is Kind.LINK else data,
            target=(entry.target or b"/".join(entry.linked)).decode(),
        )
        for entry, data in found
    }


@pytest.mark.parametrize("packer", ["sqfstar", "ours"])
def test_what_was_packed_is_read_as_another_program_reads_it(tmp_path: Path, packer: str) -> None:
    path = pack(tmp_path) if packer == "sqfstar" else squash(tmp_path, ITEMS)[0]
    expected = {name: item for name, item in read_back(path).items() if name}
    assert len(expected) == len(ITEMS)
    assert seen(path) == expected


@pytest.mark.parametrize(
    "options", [(), ("-noI", "-noD"), ("-noF", "-noD", "-no-fragments"), ("-noI", "-no-fragments")]
)
def test_one_that_is_compressed_or_in_fragments_is_refused(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with pytest.raises(NotReadable):
        seen(pack(tmp_path, "-no-xattrs", *options))


def test_one_that_has_attributes_is_refused_rather_than_read_without_them(tmp_path: Path) -> None:
    for kind in ("file", "directory"):
        path, _ = squash(tmp_path, [Item("noted", kind, attributes={"user.note": "kept"})])
        with pytest.raises(NotReadable, match="attributes"):
            seen(path)


def test_what_is_no_squashfs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "root"
    for data in (b"", b"hsqs", os.urandom(4096), b"hsqs" + bytes(4096)):
        path.write_bytes(data)
        with pytest.raises(NotReadable):
            seen(path)


def test_a_directory_that_holds_itself_is_refused(tmp_path: Path) -> None:
    path, _ = squash(tmp_path, [Item("a", "directory"), Item("a/b", "directory")])
    data = bytearray(path.read_bytes())
    # The list of the root is the last one: its entry for `a` is made to lead to the root's own inode.
    root, lists = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<Q", data, 72)[0]
    at = data.rindex(b"a", lists) - 8
    struct.pack_into("<H", data, at, root & 0xFFFF)
    path.write_bytes(data)
    with pytest.raises(NotReadable, match="two places"):
        seen(path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = [Item("d", "directory"), Item("d/f", data=b"x" * 100), Item("s", "symlink", target="d")]
    return squash(tmp_path_factory.mktemp("small"), items)[0]


@given(changes=st.lists(st.tuples(st.integers(0, 1000), st.binary(min_size=1, max_size=9))))
def test_a_damaged_one_is_read_or_refused(small: Path, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(small.read_bytes())
    for place, new in changes:
        data[place : place + len(new)] = new
    path = small.with_name("damaged")
    path.write_bytes(data)
    try:
        with Squashed(path) as root:
            for entry, read in root.entries():
                assert all(part not in (b"", b".", b"..") for part in entry.parts)
                for _ in zip(range(100), read(), strict=False):
                    pass
    except NotReadable:
        pass
