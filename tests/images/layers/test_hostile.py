"""Layers made to do harm: each is refused by name, or lands inside the root and nowhere else."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import pytest
from backports import zstd
from tests.images.layers.packing import (
    Item,
    applied,
    blob_of,
    digest_of,
    layer_of,
    squash,
    tar_of,
)

from crucible.errors import CrucibleError, ImageBomb, ImageUnsafe, LayerDamaged
from crucible.images.layers.limits import Limits
from crucible.images.layers.rootfs import write_root
from crucible.images.oci.model import Compression, Layer


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/../x", "a/..", "..", "a/./../b", "../../../../etc/cron.d/x"]
)
def test_a_path_that_climbs_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageUnsafe, match="climbs"):
        squash(tmp_path, [Item(name, data=b"x")])
    with pytest.raises(ImageUnsafe, match="climbs"):
        squash(tmp_path, [Item("f"), Item("l", kind="link", target=name)])


def test_an_absolute_path_is_one_inside_the_root(tmp_path: Path) -> None:
    seen = applied(tmp_path, [Item("/etc/passwd", data=b"x"), Item("//a//b", data=b"y")])
    assert sorted(seen) == ["a", "a/b", "etc", "etc/passwd"]


def test_a_link_out_of_the_root_leads_back_into_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    seen = applied(
        tmp_path,
        [
            Item("up", kind="symlink", target="../../../../../../../.."),
            Item("away", kind="symlink", target=str(outside)),
        ],
        [Item("up/first", data=b"1"), Item("away/second", data=b"2")],
    )
    assert list(outside.iterdir()) == []
    assert seen["first"].data == b"1"
    assert seen[f"{str(outside)[1:]}/second"].data == b"2"


def test_the_last_name_is_never_followed(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [Item("passwd", data=b"root"), Item("l", kind="symlink", target="passwd")],
        [Item("l", data=b"mine")],
    )
    assert (seen["passwd"].data, seen["l"].data) == (b"root", b"mine")


def test_symbolic_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    circle = [Item("a", kind="symlink", target="b"), Item("b", kind="symlink", target="a")]
    with pytest.raises(ImageUnsafe, match="circle"):
        squash(tmp_path, circle, [Item("a/x", data=b"1")])


@pytest.mark.parametrize("target", ["nothing", "d", "l/x", "", "dangling/x"])
def test_a_hard_link_to_what_cannot_be_linked_is_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(ImageUnsafe, match="hard link"):
        squash(
            tmp_path,
            [
                Item("d/", kind="directory"),
                Item("dangling", kind="symlink", target="/no/such"),
                Item("bad", kind="link", target=target),
                Item("nothing"),
            ],
        )


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "d/.wh.x/y", ".wh.d/.wh.x"])
def test_a_whiteout_that_means_nothing_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageUnsafe, match="whiteout"):
        squash(tmp_path, [Item("d/x")], [Item(name)])


def test_the_root_cannot_become_a_file(tmp_path: Path) -> None:
    for kind in ("file", "symlink", "link", "fifo"):
        with pytest.raises(ImageUnsafe):
            squash(tmp_path, [Item("f"), Item(".", kind=kind, target="f")])


def test_a_nul_in_a_name_is_refused(tmp_path: Path) -> None:
    for record in (b"path=a\0b", b"linkpath=a\0b"):
        tar = _with_records([record], tar_of([Item("l", kind="symlink", target="t")]))
        with pytest.raises(ImageUnsafe):
            squash(tmp_path, tar)


def test_names_that_are_no_text_are_kept(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9-\xff")
    seen = applied(tmp_path, [Item(odd, data=b"1"), Item("naïve-日本", data=b"2"), Item("a\nb")])
    assert seen[odd].data == b"1"
    assert seen["naïve-日本"].data == b"2"
    assert "a\nb" in seen


@pytest.mark.parametrize("uid", [2**32 - 1, 2**32, 2**40, -1])
def test_an_owner_that_nobody_can_be_is_refused(tmp_path: Path, uid: int) -> None:
    with pytest.raises(ImageUnsafe, match="belongs to"):
        squash(tmp_path, _with_records([f"uid={uid}".encode()], tar_of([Item("a")])))


def test_the_largest_owner_is_kept_and_too_many_are_refused(tmp_path: Path) -> None:
    assert applied(tmp_path, [Item("a", uid=2**32 - 2, gid=2**31)])["a"].uid == 2**32 - 2
    with pytest.raises(ImageBomb, match="owners"):
        squash(tmp_path, [Item(f"f{number}", uid=number, gid=0) for number in range(65600)])


def test_times_beyond_what_can_be_told_become_the_nearest(tmp_path: Path) -> None:
    seen = applied(tmp_path, [Item("old", mtime=-5.0), Item("late", mtime=2.0**40)])
    assert (seen["old"].mtime_s, seen["late"].mtime_s) == (0, 2**32 - 1)


def test_a_size_beyond_the_end_is_found_out(tmp_path: Path) -> None:
    tar = tar_of([Item("a", data=b"x" * 600)])[:1024]
    with pytest.raises(LayerDamaged, match="middle"):
        squash(tmp_path, tar)
    with pytest.raises(LayerDamaged):
        squash(tmp_path, _with_records([b"size=99999"], tar_of([Item("a", data=b"x")])))
    with pytest.raises(ImageBomb):
        squash(tmp_path, _with_records([b"size=" + b"9" * 20], tar_of([Item("a")])))
    with pytest.raises(LayerDamaged):
        squash(tmp_path, _with_records([b"size=-1"], tar_of([Item("a")])))


def test_a_sparse_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ImageUnsafe, match="sparse"):
        squash(tmp_path, _with_records([b"GNU.sparse.major=1"], tar_of([Item("a")])))
    with pytest.raises(ImageUnsafe, match="sparse"):
        squash(tmp_path, _with_flag(b"S"))


def test_an_entry_of_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageUnsafe, match="kind"):
        squash(tmp_path, _with_flag(b"V"))


@pytest.mark.parametrize("name", ["x" * 256, "a/" * 200 + "b", "y/" * 2100])
def test_names_and_paths_have_a_longest_length(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageUnsafe):
        squash(tmp_path, [Item(name)])


def test_links_do_not_make_directories_deeper_than_allowed(tmp_path: Path) -> None:
    deep = "d/" * 100
    layers = [[Item(deep, kind="directory"), Item("l", kind="symlink", target=deep)]]
    with pytest.raises(ImageUnsafe, match="deep"):
        squash(tmp_path, *layers, [Item("l/" + "e/" * 60, kind="directory")])


def test_a_symbolic_link_has_a_longest_target(tmp_path: Path) -> None:
    assert applied(tmp_path, [Item("l", kind="symlink", target="t" * 4095)])["l"].target
    for target in ("t" * 4096, ""):
        with pytest.raises(ImageUnsafe, match="symbolic link"):
            squash(tmp_path, [Item("l", kind="symlink", target=target)])


SMALL = Limits(total_bytes=1 << 20, entries=50, header_bytes=4096, attribute_bytes=100, layers=3)


def test_more_entries_than_allowed_are_a_bomb(tmp_path: Path) -> None:
    layer = [Item(f"f{number}") for number in range(30)]
    with pytest.raises(ImageBomb, match="entries"):
        squash(tmp_path, layer, layer, limits=SMALL)


def test_more_layers_than_allowed_are_a_bomb(tmp_path: Path) -> None:
    with pytest.raises(ImageBomb, match="layers"):
        squash(tmp_path, *[[Item("f")]] * 4, limits=SMALL)


@pytest.mark.parametrize("compression", list(Compression))
def test_layers_that_unpack_to_too_much_are_a_bomb(
    tmp_path: Path, compression: Compression
) -> None:
    tar = tar_of([Item("zeros", data=bytes(700_000))])
    layers = [layer_of(tmp_path, tar, compression)] * 2
    with pytest.raises(ImageBomb, match="unpacks"):
        write_root(layers, tmp_path / "root", limits=SMALL)


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
def test_a_layer_that_grows_without_measure_is_a_bomb(
    tmp_path: Path, compression: Compression
) -> None:
    tar = tar_of([Item("zeros", data=bytes(8 << 20))])
    limits = Limits(ratio=20, free_bytes=1 << 20)
    with pytest.raises(ImageBomb, match="unpacks"):
        write_root([layer_of(tmp_path, tar, compression)], tmp_path / "root", limits=limits)


def test_headers_and_attributes_have_a_largest_size(tmp_path: Path) -> None:
    with pytest.raises(ImageBomb, match="header"):
        squash(
            tmp_path, _with_records([b"comment=" + b"x" * 5000], tar_of([Item("a")])), limits=SMALL
        )
    with pytest.raises(ImageBomb, match="attributes"):
        squash(tmp_path, [Item("a", attributes={"user.a": "v" * 200})], limits=SMALL)


def test_links_that_take_too_long_to_follow_are_a_bomb(tmp_path: Path) -> None:
    chain = [Item("l0", kind="symlink", target="./" * 2000 + "d")]
    chain += [Item(f"l{n}", kind="symlink", target="./" * 2000 + f"l{n - 1}") for n in range(1, 30)]
    files = [Item(f"l29/{number}") for number in range(2)]
    with pytest.raises(ImageBomb, match="follow"):
        squash(tmp_path, chain, files, limits=Limits(lookups=50_000))


def test_whiteouts_again_and_again_cost_no_more(tmp_path: Path) -> None:
    many = [Item(f"d/f{number}") for number in range(3000)]
    again = [Item("d/.wh..wh..opq")] * 3000
    assert len(applied(tmp_path, [*many, *again])) == 3001


@pytest.mark.parametrize("compression", list(Compression))
def test_every_compression_is_read_and_both_digests_are_compared(
    tmp_path: Path, compression: Compression
) -> None:
    tar = tar_of([Item("a", data=os.urandom(300_000))])
    good = layer_of(tmp_path, tar, compression)
    write_root([good], tmp_path / "root")
    with pytest.raises(LayerDamaged, match="unpacks to sha256"):
        write_root([layer_of(tmp_path, tar, compression, diff_id=digest_of(b""))], tmp_path / "x")
    changed = bytearray(good.path.read_bytes())
    changed[-1] ^= 1
    good.path.write_bytes(changed)
    with pytest.raises(LayerDamaged):
        write_root([good], tmp_path / "x")
    good.path.write_bytes(changed[:-1])
    with pytest.raises(LayerDamaged):
        write_root([good], tmp_path / "x")
    good.path.write_bytes(changed + b"\0")
    with pytest.raises(LayerDamaged):
        write_root([good], tmp_path / "x")


def test_a_compressed_layer_may_come_in_many_parts(tmp_path: Path) -> None:
    tar = tar_of([Item("a", data=b"1" * 100_000), Item("b", data=b"2")])
    cuts = [tar[start : start + 7_000] for start in range(0, len(tar), 7_000)]
    for compression, compress in (
        (Compression.GZIP, gzip.compress),
        (Compression.ZSTD, zstd.compress),
    ):
        packed = b"".join(compress(cut) for cut in cuts)
        layer = blob_of(tmp_path, packed, compression, diff_id=digest_of(tar))
        write_root([layer], tmp_path / "root")


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
@pytest.mark.parametrize("packed", [b"\x1f\x8b", b"(\xb5/\xfd", b"no archive at all" * 40])
def test_what_cannot_be_decompressed_is_damaged(
    tmp_path: Path, compression: Compression, packed: bytes
) -> None:
    with pytest.raises(LayerDamaged):
        write_root(
            [blob_of(tmp_path, packed, compression, diff_id=digest_of(b""))], tmp_path / "root"
        )


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
def test_a_compressed_layer_cut_short_is_damaged(tmp_path: Path, compression: Compression) -> None:
    tar = tar_of([Item("a", data=os.urandom(5000))])
    packed = layer_of(tmp_path, tar, compression).path.read_bytes()
    for length in (len(packed) - 1, len(packed) // 2, 20, 5):
        layer = blob_of(tmp_path, packed[:length], compression, diff_id=digest_of(tar))
        with pytest.raises(LayerDamaged):
            write_root([layer], tmp_path / "root")


def test_a_wrong_checksum_is_damage(tmp_path: Path) -> None:
    tar = bytearray(tar_of([Item("a", data=b"1")]))
    tar[0] ^= 1
    with pytest.raises(LayerDamaged, match="checksum"):
        squash(tmp_path, bytes(tar))


@pytest.mark.parametrize(
    "records",
    [
        b"no length",
        b"5 path",
        b"99 path=x\n",
        b"0 a=b\n",
        b"6 =x\nzz",
        b"x" * 40,
        b"9" * 40 + b" a=b\n",
    ],
)
def test_records_that_make_no_sense_are_damage(tmp_path: Path, records: bytes) -> None:
    with pytest.raises(LayerDamaged):
        squash(tmp_path, _header(b"x", len(records)) + _padded(records) + tar_of([Item("a")]))


def test_headers_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageUnsafe, match="headers"):
        squash(tmp_path, (_header(b"g", 9) + _padded(b"9 a=bcd\n\n")) * 20)


def test_a_missing_blob_is_an_error_and_no_hang(tmp_path: Path) -> None:
    layer = Layer(
        digest=digest_of(b""),
        diff_id=digest_of(b""),
        media_type="",
        size=0,
        path=tmp_path / "nowhere",
        compression=Compression.NONE,
    )
    with pytest.raises((OSError, CrucibleError)):
        write_root([layer], tmp_path / "root")


def _with_records(records: list[bytes], tar: bytes) -> bytes:
    text = b""
    for record in records:
        length = len(record) + 3
        while len(str(length)) + 2 + len(record) != length:
            length += 1
        text += f"{length} ".encode() + record + b"\n"
    return _header(b"x", len(text)) + _padded(text) + tar


def _with_flag(flag: bytes) -> bytes:
    return _header(flag, 0) + bytes(1024)


def _header(flag: bytes, size: int) -> bytes:
    header = bytearray(512)
    struct.pack_into("100s8s8s8s12s12s8s1s", header, 0, b"name", b"644", b"0", b"0", b"%o" % size,
                     b"0", b" " * 8, flag)  # fmt: skip
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)
