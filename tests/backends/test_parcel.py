"""Snapshots as one file: whole ones travel, and whatever hostile hands made of one is refused."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.backends.saved_machines import MEMORY_MIB, make_saved

from crucible.backends.qemu import parcel, saved
from crucible.backends.qemu.parcel import MAGIC, ParcelDamaged, pack, unpack
from crucible.errors import CrucibleError, PathRefused

SOME_DIGEST = "0" * 64
FACTS = {"sandbox_name": "box", "created_at": 1.5}


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    make_saved(tmp_path / "original")
    pack(tmp_path / "original", tmp_path / "parcel", FACTS)
    return tmp_path / "parcel"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target"
    path.mkdir()
    return path


def forge(path: Path, header: object, body: bytes = b"", *, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    count = len(text) if length is None else length
    digest = hashlib.sha256(text).digest()
    path.write_bytes(zstd.compress(MAGIC + struct.pack(">I", count) + digest + text + body))
    return path


def files_of(packed: Path) -> list[Any]:
    with zstd.open(packed) as stream:
        stream.read(len(MAGIC))
        [length] = struct.unpack(">I", stream.read(4))
        stream.read(32)
        files: list[Any] = json.loads(stream.read(length))["files"]
        return files


def test_a_snapshot_arrives_as_it_was_sent(tmp_path: Path, packed: Path, target: Path) -> None:
    assert unpack(packed, target) == FACTS
    for name in ("ram", "state", "disk-0.raw", "disk-1.qcow2", "root.squashfs"):
        assert (target / name).read_bytes() == (tmp_path / "original" / name).read_bytes()
    assert saved.load(target).memory_mib == MEMORY_MIB


def test_zeroes_travel_light_and_stay_holes(packed: Path, target: Path) -> None:
    unpack(packed, target)
    assert packed.stat().st_size < 20_000
    assert (target / "ram").stat().st_blocks * 512 <= 2 << 20


def test_a_parcel_is_for_us_alone_and_nothing_half_done_is_seen(packed: Path) -> None:
    assert packed.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in packed.parent.iterdir() if path.name.startswith(".")] == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    make_saved(tmp_path / "original")
    with pytest.raises(PathRefused):
        pack(tmp_path / "original", tmp_path / "no" / "such" / "parcel", FACTS)


@pytest.mark.parametrize("part", [0, 1, 10, 100, -1, -9])
def test_a_parcel_cut_short_is_refused(packed: Path, target: Path, part: int) -> None:
    packed.write_bytes(packed.read_bytes()[:part])
    with pytest.raises(ParcelDamaged):
        unpack(packed, target)


def test_a_parcel_that_goes_on_is_refused(packed: Path, target: Path) -> None:
    packed.write_bytes(packed.read_bytes() + zstd.compress(b"more"))
    with pytest.raises(ParcelDamaged):
        unpack(packed, target)


def test_a_missing_file_is_refused(tmp_path: Path, target: Path) -> None:
    with pytest.raises(PathRefused):
        unpack(tmp_path / "nosuch", target)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(place=st.integers(0, 10_000), value=st.integers(1, 255))
def test_a_parcel_with_any_byte_changed_is_refused_or_the_same(
    tmp_path: Path, packed: Path, place: int, value: int
) -> None:
    data = bytearray(packed.read_bytes())
    data[place % len(data)] ^= value
    changed = tmp_path / os.urandom(6).hex()
    changed.write_bytes(data)
    target = tmp_path / f"{changed.name}-target"
    target.mkdir()
    try:
        facts = unpack(changed, target)
    except CrucibleError:
        return
    assert facts == FACTS
    for name in ("root.squashfs", "disk-0.raw"):
        assert (target / name).read_bytes() == (tmp_path / "original" / name).read_bytes()
    assert (target / "ram").read_bytes() == (tmp_path / "original" / "ram").read_bytes()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.binary(max_size=300))
def test_bytes_that_are_no_parcel_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / os.urandom(6).hex()
    for content in (data, zstd.compress(data), zstd.compress(MAGIC + data)):
        path.write_bytes(content)
        with pytest.raises(CrucibleError):
            unpack(path, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["../escaped", "/etc/escaped", "sub/ram", "ram\0", "", ".", "..", "RAM", "disk-0.qcow2", "disk-1000.qcow2", "x"],
)  # fmt: skip
def test_a_name_no_snapshot_has_writes_nothing(packed: Path, target: Path, name: str) -> None:
    files = [*files_of(packed), [name, 5, SOME_DIGEST]]
    forged = forge(packed, {"facts": {}, "files": files}, struct.pack(">QI", 0, 5) + b"evil!")
    with pytest.raises(ParcelDamaged):
        unpack(forged, target)
    assert list(target.iterdir()) == []
    assert not (target.parent / "escaped").exists()


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        3,
        {"files": [], "facts": {}},
        {"files": [["ram", 5]], "facts": {}},
        {"files": [["ram", 5], ["ram", 5]], "facts": {}},
        {"files": [["ram"]], "facts": {}},
        {"files": {"ram": 5}, "facts": {}},
        {"files": [["ram", -1]], "facts": {}},
        {"files": [["ram", 1 << 60]], "facts": {}},
        {"files": [["ram", "x"]], "facts": {}},
        {"files": [["ram", float("inf")]], "facts": {}},
        {"files": [["ram", 5, "0" * 64]], "facts": 3},
        {"files": [[name, 5, "0" * 63] for name in sorted(parcel._NEEDED)], "facts": {}},
        {"files": [[name, 5, None] for name in sorted(parcel._NEEDED)], "facts": {}},
        b"\xff\xff",
        b"[" * 200_000,
    ],
    ids=range(17),
)
def test_a_header_that_makes_no_sense_is_refused(
    tmp_path: Path, target: Path, header: object
) -> None:
    with pytest.raises(ParcelDamaged):
        unpack(forge(tmp_path / "forged", header), target)
    assert list(target.iterdir()) == []


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(place=st.integers(0, 1 << 22), bit=st.integers(0, 7))
def test_any_bit_changed_below_the_compression_is_refused(
    tmp_path: Path, packed: Path, place: int, bit: int
) -> None:
    """The checksum of the compression is right again: whoever changed it packed it anew."""
    data = bytearray(zstd.decompress(packed.read_bytes()))
    data[place % len(data)] ^= 1 << bit
    changed = tmp_path / os.urandom(6).hex()
    changed.write_bytes(zstd.compress(data, 1))
    target = tmp_path / f"{changed.name}-target"
    target.mkdir()
    with pytest.raises(ParcelDamaged):
        unpack(changed, target)


@pytest.mark.parametrize("name", ["root.squashfs", "disk-0.raw", "ram", "state", "disk-1.qcow2"])
def test_a_bit_changed_in_any_file_is_told_with_the_files_name(
    tmp_path: Path, packed: Path, target: Path, name: str
) -> None:
    carried = (tmp_path / "original" / name).read_bytes().rstrip(b"\0")[-4:]
    data = zstd.decompress(packed.read_bytes())
    place = data.rindex(carried)
    packed.write_bytes(zstd.compress(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]))
    with pytest.raises(ParcelDamaged, match=f"{name} has other contents"):
        unpack(packed, target)


def test_a_parcel_of_another_version_is_refused_as_such(packed: Path, target: Path) -> None:
    data = zstd.decompress(packed.read_bytes()).replace(MAGIC, b"crucible-snapshot 2\n", 1)
    # Earlier ones were packed by gzip.
    for changed in (zstd.compress(data), gzip.compress(data)):
        packed.write_bytes(changed)
        with pytest.raises(ParcelDamaged, match="another Crucible wrote it"):
            unpack(packed, target)


def test_a_disk_of_more_layers_than_a_machine_can_have_is_refused(
    packed: Path, target: Path
) -> None:
    more = [[f"disk-{number}.qcow2", 5, SOME_DIGEST] for number in range(2, 999)]
    with pytest.raises(ParcelDamaged, match="more layers"):
        unpack(forge(packed, {"facts": {}, "files": [*files_of(packed), *more]}), target)
    assert list(target.iterdir()) == []


def test_a_header_without_end_is_not_read(tmp_path: Path, target: Path) -> None:
    with pytest.raises(ParcelDamaged, match="too long"):
        unpack(forge(tmp_path / "forged", {}, length=1 << 31), target)


def extents(*pieces: tuple[int, bytes]) -> bytes:
    return b"".join(struct.pack(">QI", offset, len(data)) + data for offset, data in pieces)


@pytest.mark.parametrize(
    "body",
    [
        extents((1, b"12345")),
        extents((1 << 63, b"x")),
        extents((0, b"123"), (1, b"x")),
        extents((0, b"123"), (0, b"123")),
        struct.pack(">QI", 0, 1 << 31) + b"x",
        extents((0, b"1")) + b"\0\0",
    ],
    ids=["beyond", "far beyond", "back", "again", "too long", "cut"],
)
def test_data_outside_its_place_is_refused(packed: Path, target: Path, body: bytes) -> None:
    files = [[name, 5, digest] for name, _, digest in files_of(packed)]
    with pytest.raises(ParcelDamaged):
        unpack(forge(packed, {"facts": {}, "files": files}, body), target)


def rebuilt(packed: Path, directory: Path) -> Path:
    """The parcel of a directory that was tampered with, its manifest included."""
    parcel.pack(directory, packed, FACTS)
    return packed


@pytest.mark.parametrize("name", ["ram", "state", "disk-1.qcow2"])
def test_contents_other_than_the_manifest_says_are_refused(
    tmp_path: Path, packed: Path, target: Path, name: str
) -> None:
    with (tmp_path / "original" / name).open("r+b") as file:
        file.write(b"tampered")
    with pytest.raises(ParcelDamaged):
        unpack(rebuilt(packed, tmp_path / "original"), target)


def test_a_disk_that_names_another_file_is_refused(
    tmp_path: Path, packed: Path, target: Path
) -> None:
    original = tmp_path / "original"
    with (original / "disk-1.qcow2").open("r+b") as file:
        file.seek(8)
        file.write(struct.pack(">QI", 512, 11))
        file.seek(512)
        file.write(b"/etc/shadow")
    saved.describe(saved.read_facts(original))
    with pytest.raises(ParcelDamaged, match="tampered"):
        unpack(rebuilt(packed, original), target)


def test_a_manifest_with_values_of_another_kind_is_refused(
    tmp_path: Path, packed: Path, target: Path
) -> None:
    path = tmp_path / "original" / saved.MANIFEST_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "memory_mib": "much"}))
    with pytest.raises(ParcelDamaged):
        unpack(rebuilt(packed, tmp_path / "original"), target)
