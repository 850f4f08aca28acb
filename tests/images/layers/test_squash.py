"""The filesystem itself, at the sizes where its format changes; read back by another program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.images.layers.packing import Item, applied, read_back, squash, tar_of

from crucible.images.layers import content
from crucible.images.layers.content import Content
from crucible.images.layers.headers import Kind
from crucible.images.layers.limits import DEFAULT
from crucible.images.layers.squash import write_filesystem
from crucible.images.layers.tree import Node, Tree

BLOCK = content.BLOCK


@pytest.mark.parametrize(
    "size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 5 * BLOCK + 17, (1 << 18) + 3]
)
def test_files_of_every_size_come_back(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    assert applied(tmp_path, [Item("a", data=b"before"), Item("f", data=data)])["f"].data == data


def test_zeros_take_no_space(tmp_path: Path) -> None:
    data = bytes(20 * BLOCK) + b"middle" + bytes(20 * BLOCK)
    packed, _ = squash(tmp_path, [Item("f", data=data), Item("z", data=bytes(BLOCK))])
    assert packed.stat().st_size < 3 * BLOCK
    seen = read_back(packed)
    assert (seen["f"].data, seen["z"].data) == (data, bytes(BLOCK))


def test_a_directory_with_very_many_names(tmp_path: Path) -> None:
    wanted = [f"d/{number:06}-{'n' * (number % 60)}" for number in range(30_000)]
    items = [Item(name, data=name.encode()) for name in wanted]
    seen = applied(tmp_path, items)
    assert all(seen[name].data == name.encode() for name in wanted)
    assert len(seen) == len(wanted) + 1


def test_many_directories_with_one_name_in_many(tmp_path: Path) -> None:
    items = [Item(f"{a}/{b}/{c}", data=b"x") for a in range(12) for b in range(12) for c in "pqr"]
    items += [Item(f"links/{number}", kind="link", target="0/0/p") for number in range(900)]
    seen = applied(tmp_path, items)
    assert len(seen) == 12 + 144 + 432 + 901
    assert sum(item.kind == "link" for item in seen.values()) == 900


def test_what_lies_beyond_four_gigabytes_is_found(tmp_path: Path) -> None:
    far = 5 << 30
    tree = Tree(DEFAULT)
    for name, size, place in ((b"far", 6, far), (b"near", 5, 96)):
        tree.root.children[name] = Node(
            kind=Kind.FILE,
            mode=0o644,
            uid=0,
            gid=0,
            mtime_s=1,
            content=Content(start=place, size=size),
        )
    packed = tmp_path / "root.squashfs"
    with packed.open("w+b") as file:
        file.seek(96)
        file.write(b"first")
        file.seek(far)
        file.write(b"second")
        write_filesystem(tree, file, end=far + 6)
    seen = read_back(packed)
    assert (seen["near"].data, seen["far"].data) == (b"first", b"second")


def test_what_later_layers_removed_takes_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "_WASTE_BYTES", 0)
    big, kept = os.urandom(9 * BLOCK + 5), os.urandom(3 * BLOCK + 7)
    packed, _ = squash(
        tmp_path,
        [Item("a", data=b"a" * 10), Item("big", data=big), Item("kept", data=kept)],
        [Item(".wh.big"), Item("new", data=b"new")],
        [Item("linked", kind="link", target="kept"), Item("hole", data=bytes(4 * BLOCK) + b"!")],
    )
    assert packed.stat().st_size < len(big)
    seen = read_back(packed)
    assert (seen["a"].data, seen["new"].data) == (b"a" * 10, b"new")
    assert seen["hole"].data == bytes(4 * BLOCK) + b"!"
    assert kept in (seen["kept"].data, seen["linked"].data)


def test_the_usual_tools_read_it_as_well(tmp_path: Path) -> None:
    packed, _ = squash(tmp_path, tar_of([Item("d/f", data=b"text", attributes={"user.a": "b"})]))
    listed = subprocess.run(["unsquashfs", "-l", packed], check=True, capture_output=True).stdout
    assert b"squashfs-root/d/f" in listed
