"""The kernel in a bzImage, taken out of it: however it is packed, whole and with its way in, or not at all."""

from __future__ import annotations

import gzip
import lzma
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.images import unpacking
from crucible.images.unpacking import unpacked

PVH = 18


def kernel(note: int = PVH, owner: bytes = b"Xen\0") -> bytes:
    """A 64-bit ELF file with one segment, of two notes."""
    notes = struct.pack("<III4s6s2x", 4, 6, 6, b"Xen\0", b"linux\0")
    notes += struct.pack("<III4sQ", len(owner), 8, note, owner, 0x1000850)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x1000000, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(notes), len(notes), 4)
    return header + segment + notes + b"code" * 1000


def bzimage(payload: bytes, *, sectors: int = 4, protocol: int = 0x20F) -> bytes:
    setup = bytearray((sectors + 1) * 512)
    setup[0x1F1] = sectors
    setup[0x1FE:0x200] = b"\x55\xaa"
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", setup, 0x206, protocol)
    struct.pack_into("<II", setup, 0x248, 100, len(payload))
    return bytes(setup) + b"\x90" * 100 + payload + b"what follows"


def sized(packed: bytes, size: int) -> bytes:
    return packed + struct.pack("<I", size)


def in_lz4(data: bytes) -> bytes:
    """Two blocks of nothing but literals."""
    blocks = b""
    for part in (data[:1000], data[1000:]):
        more, last = divmod(len(part) - 15, 255)
        block = b"\xf0" + b"\xff" * more + bytes([last]) + part
        blocks += struct.pack("<I", len(block)) + block
    return sized(b"\x02\x21\x4c\x18" + blocks, len(data))


def in_zstd(data: bytes) -> bytes:
    """One frame with its size told, of one block that is not compressed."""
    frame = struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data))
    block = struct.pack("<I", len(data) << 3 | 1)[:3] + data
    return sized(frame + block, len(data))


PACKED = {
    "gzip": gzip.compress(kernel()),
    "xz": sized(lzma.compress(kernel(), check=lzma.CHECK_CRC32), len(kernel())),
    "lz4": in_lz4(kernel()),
    "zstd": in_zstd(kernel()),
}


@pytest.mark.parametrize("packing", PACKED)
def test_a_kernel_is_taken_out_however_it_is_packed(packing: str) -> None:
    assert unpacked(bzimage(PACKED[packing])) == kernel()


@pytest.mark.parametrize("packing", PACKED)
def test_one_that_is_cut_short_or_altered_stays_as_it_is(packing: str) -> None:
    payload = PACKED[packing]
    assert unpacked(bzimage(payload)[: -len(payload) // 2]) is None
    half = payload[: len(payload) // 2]
    assert unpacked(bzimage(sized(half, len(kernel())))) is None
    assert unpacked(bzimage(payload[:-4] + struct.pack("<I", len(kernel()) + 1))) is None
    assert unpacked(bzimage(payload[:-4] + struct.pack("<I", len(kernel()) - 1))) is None


def test_a_kernel_that_does_not_say_how_it_is_entered_stays_as_it_is() -> None:
    for other in (kernel(note=17), kernel(owner=b"GNU\0"), b"MZ" + kernel(), b"\x7fELF"):
        assert unpacked(bzimage(gzip.compress(other))) is None


def test_what_is_no_such_image_stays_as_it_is() -> None:
    whole = bzimage(PACKED["gzip"])
    for other in (b"", b"MZ", whole[:0x250], whole[512:], bzimage(PACKED["gzip"], protocol=0x207)):
        assert unpacked(other) is None
    assert unpacked(bzimage(b"BZh9" + bytes(100))) is None


def test_an_image_that_claims_to_hold_too_much_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unpacking, "LARGEST", 1 << 20)
    bomb = gzip.compress(kernel().ljust(2 << 20, b"\0"))
    assert unpacked(bzimage(bomb)) is None
    lying = bomb[:-4] + struct.pack("<I", len(kernel()))
    assert unpacked(bzimage(lying)) is None


def test_a_host_without_the_library_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert unpacked(bzimage(PACKED["lz4"])) is None


@given(st.data())
def test_whatever_is_altered_it_is_the_kernel_or_nothing(data: st.DataObject) -> None:
    """What is packed is guarded by a sum of its own; the file around it is not."""
    image = bytearray(bzimage(PACKED["gzip"]))
    for _ in range(data.draw(st.integers(1, 4))):
        image[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))
    found = unpacked(bytes(image))
    assert found is None or len(found) == len(kernel())


@given(st.binary(max_size=200))
def test_notes_of_any_kind_are_read_to_their_end(segment: bytes) -> None:
    assert len(list(unpacking._notes(segment))) <= len(segment) // 12
