"""Layers written by hand must be sound to QEMU's own tools, and headers are never believed."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.backends.qemu import disks
from crucible.errors import StateDamaged
from crucible.system import require

SIZES_MIB = [1, 256, 511, 512, 513, 8192, 1 << 20]


def qemu_img(*words: str) -> bytes:
    return subprocess.run([*require("qemu-img"), *words], check=True, capture_output=True).stdout


@pytest.mark.parametrize("size_mib", SIZES_MIB)
def test_an_empty_layer_is_sound(tmp_path: Path, size_mib: int) -> None:
    path = tmp_path / "layer.qcow2"
    disks.create_layer(path, size_mib << 20)
    checked = json.loads(qemu_img("check", "--output=json", "-f", "qcow2", str(path)))
    assert {key: checked.get(key, 0) for key in ("check-errors", "leaks", "corruptions")} == {
        "check-errors": 0, "leaks": 0, "corruptions": 0,
    }  # fmt: skip
    facts = json.loads(qemu_img("info", "--output=json", "-f", "qcow2", str(path)))
    assert facts["virtual-size"] == size_mib << 20
    assert "backing-filename" not in facts


@pytest.mark.parametrize("size_mib", SIZES_MIB)
def test_the_size_of_a_layer_is_read_back(tmp_path: Path, size_mib: int) -> None:
    path = tmp_path / "layer.qcow2"
    disks.create_layer(path, size_mib << 20)
    assert disks.layer_size(path) == size_mib << 20


def test_a_layer_takes_data_up_to_its_last_byte(tmp_path: Path) -> None:
    path = tmp_path / "layer.qcow2"
    disks.create_layer(path, 64 << 20)
    data = tmp_path / "data"
    data.write_bytes(os.urandom(1 << 20))
    target = json.dumps({"driver": "qcow2", "file": {"driver": "file", "filename": str(path)}})
    offset = str((64 << 20) - (1 << 20))
    writing = f"write -s {data} {offset} 1M"
    subprocess.run([*require("qemu-io"), "-c", writing, f"json:{target}"], check=True)
    raw = tmp_path / "raw"
    qemu_img("convert", "-f", "qcow2", "-O", "raw", str(path), str(raw))
    assert raw.read_bytes()[int(offset) :] == data.read_bytes()


def test_a_layer_is_for_us_alone(tmp_path: Path) -> None:
    disks.create_layer(tmp_path / "layer.qcow2", 1 << 20)
    assert (tmp_path / "layer.qcow2").stat().st_mode & 0o777 == 0o600


def test_a_layer_never_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "layer.qcow2"
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        disks.create_layer(path, 1 << 20)
    assert path.read_bytes() == b"precious"


# (offset, bytes): what a VMM that was taken over might write into its own disk's header.
FORGERIES = {
    "magic": (0, b"QFI\x00"),
    "version": (4, struct.pack(">I", 2)),
    "backing file": (8, struct.pack(">QI", 512, 11)),
    "backing file without a place": (16, struct.pack(">I", 11)),
    "cluster size": (20, struct.pack(">I", 9)),
    "no size": (24, struct.pack(">Q", 0)),
    "huge size": (24, struct.pack(">Q", 1 << 60)),
    "encryption": (32, struct.pack(">I", 1)),
    "internal snapshots": (60, struct.pack(">I", 1)),
    "external data": (72, struct.pack(">Q", 4)),
    "unknown feature": (72, struct.pack(">Q", 1 << 40)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_header_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "layer.qcow2"
    disks.create_layer(path, 256 << 20)
    offset, data = FORGERIES[name]
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    with pytest.raises(StateDamaged):
        disks.layer_size(path)


def test_a_place_for_a_backing_file_without_a_name_is_none(tmp_path: Path) -> None:
    """QEMU leaves this behind in a layer that others were merged into."""
    path = tmp_path / "layer.qcow2"
    disks.create_layer(path, 256 << 20)
    with path.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack(">QI", 512, 0))
    assert disks.layer_size(path) == 256 << 20
    facts = json.loads(qemu_img("info", "--output=json", "-f", "qcow2", str(path)))
    assert "backing-filename" not in facts


@pytest.mark.parametrize("length", [0, 3, 31, 79])
def test_a_header_cut_short_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "layer.qcow2"
    disks.create_layer(path, 256 << 20)
    os.truncate(path, length)
    with pytest.raises(StateDamaged):
        disks.layer_size(path)


def test_a_chain_without_its_lowest_layer_is_gone(tmp_path: Path) -> None:
    disks.create_layer(tmp_path / "disk-1.qcow2", 1 << 20)
    with pytest.raises(StateDamaged):
        disks.find_chain(tmp_path)


def test_extending_links_what_is_frozen_and_adds_one(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / disks.BLANK_NAME).write_bytes(bytes(4096))
    first = disks.extend_chain([source / disks.BLANK_NAME], source, size_mib=1)
    chain = disks.extend_chain(first.layers, target, size_mib=2)
    assert [path.name for path in chain.layers] == ["disk-0.raw", "disk-1.qcow2", "disk-2.qcow2"]
    assert [path.parent for path in chain.layers] == [target] * 3
    assert chain.layers[1].samefile(source / "disk-1.qcow2")
    assert chain.size_bytes == 2 << 20
    assert disks.find_chain(target) == chain


def chain_of(directory: Path, *numbers: int) -> None:
    for number in numbers:
        disks.layer_path(directory, number).write_bytes(b"layer %d" % number)


def test_layers_lie_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    chain_of(tmp_path, 10, 0, 9, 101, 2)
    layers = disks.find_chain(tmp_path).layers
    assert [disks.number_of(layer) for layer in layers] == [0, 2, 9, 10, 101]


def test_closing_gaps_keeps_the_layers_and_their_order(tmp_path: Path) -> None:
    chain_of(tmp_path, 0, 1, 17, 18, 1000)
    chain = disks.close_gaps(tmp_path)
    assert [layer.name for layer in chain.layers] == [
        "disk-0.raw", "disk-1.qcow2", "disk-2.qcow2", "disk-3.qcow2", "disk-4.qcow2",
    ]  # fmt: skip
    assert [layer.read_bytes() for layer in chain.layers] == [
        b"layer %d" % number for number in (0, 1, 17, 18, 1000)
    ]
    assert disks.close_gaps(tmp_path) == chain


SIZES = st.lists(st.integers(min_value=0, max_value=1 << 40), min_size=1, max_size=120)


@given(SIZES)
def test_a_merge_leaves_a_short_chain_upon_what_is_everybodys(sizes: list[int]) -> None:
    base = disks.choose_base(sizes)
    if len(sizes) <= disks.LONGEST_CHAIN:
        assert base is None
    else:
        assert base is not None
        assert 1 <= base < disks.LONGEST_CHAIN // 2


@given(st.lists(st.integers(min_value=1, max_value=1 << 30), min_size=1, max_size=300))
def test_whatever_is_written_between_snapshots_the_chain_stays_short(written: list[int]) -> None:
    chain = [0, 0]
    for size in written:
        chain.append(size)
        base = disks.choose_base(chain)
        if base is not None:
            chain[base + 1 :] = [sum(chain[base + 1 :])]
        assert len(chain) <= disks.LONGEST_CHAIN
    assert sum(chain) == sum(written)


def test_a_large_layer_is_not_copied_for_the_sake_of_small_ones() -> None:
    chain, copied = [0, 0, 10 << 30], 0
    for _ in range(200):
        chain.append(1 << 20)
        base = disks.choose_base(chain)
        if base is not None:
            copied += sum(chain[base + 1 : -1])
            chain[base + 1 :] = [sum(chain[base + 1 :])]
    assert chain[2] == 10 << 30
    assert copied < 4 << 30


def test_clearing_leaves_no_disk(tmp_path: Path) -> None:
    (tmp_path / disks.BLANK_NAME).write_bytes(b"")
    disks.create_layer(tmp_path / "disk-1.qcow2", 1 << 20)
    (tmp_path / disks.ROOT_NAME).write_bytes(b"")
    (tmp_path / "output.log").write_bytes(b"kept")
    disks.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["output.log"]


def test_a_blank_is_a_sound_filesystem_made_once(tmp_path: Path) -> None:
    path = disks.make_blank(tmp_path, 256)
    words = [*require("e2fsck"), "-f", "-n", str(path)]
    assert subprocess.run(words, capture_output=True).returncode == 0
    assert path.stat().st_size == 256 << 20
    before = path.stat().st_ino
    assert disks.make_blank(tmp_path, 256).stat().st_ino == before
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
