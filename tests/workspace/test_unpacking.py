"""An archive from a hostile guest writes beneath its target or nothing."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crucible.errors import HostDiskFull, PathRefused
from crucible.sandbox.workspace.unpacking import Unpacker, UnpackLimits

BLOCK = 512
END = bytes(2 * BLOCK)


@dataclass(frozen=True, kw_only=True)
class Forged:
    """A member; `size` and `size_field` may lie about `data`."""

    name: bytes
    type: bytes = b"0"
    data: bytes = b""
    target: bytes = b""
    mode: int = 0o644
    size: int | None = None
    size_field: bytes | None = None
    mtime: bytes = b"00000000000\0"
    prefix: bytes = b""
    magic: bytes = b"ustar\00000"

    def encode(self) -> bytes:
        size = len(self.data) if self.size is None else self.size
        size_field = b"%011o\0" % size if self.size_field is None else self.size_field
        fields = [
            self.name[:100].ljust(100, b"\0"),
            b"%07o\0" % self.mode,
            b"0000000\0" * 2,
            size_field,
            self.mtime,
            b" " * 8,
            self.type,
            self.target[:100].ljust(100, b"\0"),
            self.magic,
            bytes(64),
            bytes(16),
            self.prefix.ljust(155, b"\0"),
            bytes(12),
        ]
        fields[5] = b"%06o\0 " % sum(b"".join(fields))
        return b"".join(fields) + self.data + bytes(-len(self.data) % BLOCK)


def forge(*members: Forged) -> bytes:
    return b"".join(member.encode() for member in members) + END


def pax(records: dict[bytes, bytes], *, type: bytes = b"x") -> Forged:
    return Forged(name=b"pax", type=type, data=b"".join(map(record, records, records.values())))


def record(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    while len(b"%d %s=%s\n" % (length, key, value)) != length:
        length += 1
    return b"%d %s=%s\n" % (length, key, value)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """A directory to unpack into, with something beside it that must stay untouched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("untouched")
    inside = tmp_path / "inside"
    inside.mkdir()
    yield inside
    assert [path.name for path in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text() == "untouched"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside", "outside"]
    assert not leftovers(inside)


def leftovers(directory: Path) -> list[Path]:
    names = (Path(top, name) for top, _, files in os.walk(directory) for name in files)
    return [path for path in names if path.name.startswith(".crucible-new-")]


def unpack(
    target: Path,
    data: bytes,
    *,
    limits: UnpackLimits | None = None,
    top: bytes | None = None,
    rename: bytes | None = None,
    step: int = 1 << 16,
) -> Unpacker:
    with Unpacker(target, limits=limits or UnpackLimits(), top=top, rename=rename) as unpacker:
        for at in range(0, len(data), step):
            unpacker.feed(data[at : at + step])
        unpacker.finish()
    return unpacker


def test_files_directories_and_links_arrive(target: Path) -> None:
    unpack(
        target,
        forge(
            Forged(name=b"dir/", type=b"5", mode=0o750),
            Forged(name=b"dir/file", data=b"hello", mode=0o640, mtime=b"00000001750\0"),
            Forged(name=b"dir/link", type=b"2", target=b"file"),
            Forged(name=b"dir/same", type=b"1", target=b"dir/file"),
            Forged(name=b"empty"),
        ),
    )
    file = target / "dir/file"
    assert file.read_bytes() == b"hello"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.stat().st_mtime == 1000
    assert stat.S_IMODE((target / "dir").stat().st_mode) == 0o750
    assert (target / "dir/link").readlink() == Path("file")
    assert (target / "dir/same").stat().st_ino == file.stat().st_ino
    assert (target / "empty").read_bytes() == b""


@pytest.mark.parametrize("step", [1, 7, 511, 512, 513])
def test_the_pieces_an_archive_comes_in_do_not_matter(target: Path, step: int) -> None:
    unpack(
        target, forge(Forged(name=b"a", data=b"x" * 1234), Forged(name=b"b", data=b"y")), step=step
    )
    assert (target / "a").read_bytes() == b"x" * 1234
    assert (target / "b").read_bytes() == b"y"


@pytest.mark.parametrize(
    "name",
    [b"../escape", b"a/../../escape", b"a/..", b"..", b"/etc/escape", b"//escape", b"./../escape"],
)
@pytest.mark.parametrize("type_", [b"0", b"5", b"2", b"1"])
def test_names_that_climb_or_are_absolute_are_refused(
    target: Path, name: bytes, type_: bytes
) -> None:
    with pytest.raises(PathRefused):
        unpack(target, forge(Forged(name=name, type=type_, target=b"x")))
    assert list(target.iterdir()) == []


def test_dots_and_double_slashes_mean_nothing(target: Path) -> None:
    unpack(target, forge(Forged(name=b"./", type=b"5"), Forged(name=b"./a//./b", data=b"x")))
    assert (target / "a/b").read_bytes() == b"x"


@pytest.mark.parametrize("link", [b"../outside", b"/", b".", b"dir"])
def test_nothing_is_written_through_a_link_of_the_archive(target: Path, link: bytes) -> None:
    archive = forge(
        Forged(name=b"dir/", type=b"5"),
        Forged(name=b"link", type=b"2", target=link),
        Forged(name=b"link/victim", data=b"owned"),
    )
    with pytest.raises(PathRefused, match="links are not followed"):
        unpack(target, archive)


def test_nothing_is_written_through_a_link_of_an_earlier_run(target: Path) -> None:
    (target / "link").symlink_to("../outside")
    with pytest.raises(PathRefused, match="links are not followed"):
        unpack(target, forge(Forged(name=b"link/victim", data=b"owned")))


def test_a_file_replaces_a_link_instead_of_writing_through_it(target: Path) -> None:
    (target / "link").symlink_to("../outside/victim")
    unpack(target, forge(Forged(name=b"link", data=b"mine")))
    assert not (target / "link").is_symlink()
    assert (target / "link").read_bytes() == b"mine"


def test_a_directory_entry_never_goes_through_a_link(target: Path) -> None:
    (target / "link").symlink_to("../outside")
    with pytest.raises(PathRefused):
        unpack(target, forge(Forged(name=b"link/", type=b"5", mode=0o777)))


def test_a_directory_cannot_be_replaced_by_a_link(target: Path) -> None:
    archive = forge(
        Forged(name=b"dir/", type=b"5"),
        Forged(name=b"dir/file", data=b"x"),
        Forged(name=b"dir", type=b"2", target=b"../outside"),
        Forged(name=b"dir/victim", data=b"owned"),
    )
    with pytest.raises(PathRefused):
        unpack(target, archive)
    assert (target / "dir").is_dir()
    assert not (target / "dir").is_symlink()


def test_an_empty_directory_cannot_be_replaced_by_a_link_either(target: Path) -> None:
    archive = forge(
        Forged(name=b"dir/", type=b"5"), Forged(name=b"dir", type=b"2", target=b"../outside")
    )
    with pytest.raises(PathRefused):
        unpack(target, archive)


def test_a_file_where_a_directory_is_needed_is_refused(target: Path) -> None:
    with pytest.raises(PathRefused):
        unpack(target, forge(Forged(name=b"a", data=b"x"), Forged(name=b"a/b", data=b"y")))


@pytest.mark.parametrize("link", [b"../outside/victim", b"/etc/passwd", b"a/../../outside/victim"])
def test_hard_links_to_outside_are_refused(target: Path, link: bytes) -> None:
    with pytest.raises(PathRefused):
        unpack(target, forge(Forged(name=b"h", type=b"1", target=link)))


def test_a_hard_link_through_a_link_is_refused(target: Path) -> None:
    archive = forge(
        Forged(name=b"link", type=b"2", target=b"../outside"),
        Forged(name=b"h", type=b"1", target=b"link/victim"),
    )
    with pytest.raises(PathRefused):
        unpack(target, archive)


def test_a_hard_link_to_a_symbolic_link_is_refused(target: Path) -> None:
    archive = forge(
        Forged(name=b"link", type=b"2", target=b"../outside/victim"),
        Forged(name=b"h", type=b"1", target=b"link"),
        Forged(name=b"h", data=b"owned"),
    )
    with pytest.raises(PathRefused, match="no file of the same archive"):
        unpack(target, archive)


def test_a_hard_link_to_a_file_the_host_had_is_refused(target: Path) -> None:
    (target / "mine").write_text("mine")
    with pytest.raises(PathRefused, match="no file of the same archive"):
        unpack(target, forge(Forged(name=b"h", type=b"1", target=b"mine")))


def test_a_hard_link_to_itself_keeps_the_file(target: Path) -> None:
    unpack(target, forge(Forged(name=b"a", data=b"x"), Forged(name=b"a", type=b"1", target=b"a")))
    assert (target / "a").read_bytes() == b"x"


def test_writing_one_hard_link_again_leaves_the_other(target: Path) -> None:
    archive = forge(
        Forged(name=b"a", data=b"old"),
        Forged(name=b"b", type=b"1", target=b"a"),
        Forged(name=b"b", data=b"new"),
    )
    unpack(target, archive)
    assert (target / "a").read_bytes() == b"old"
    assert (target / "b").read_bytes() == b"new"


def test_a_file_of_the_host_with_a_second_name_is_not_written_into(target: Path) -> None:
    os.link(target.parent / "outside/victim", target / "alias")
    unpack(target, forge(Forged(name=b"alias", data=b"owned")))
    assert (target / "alias").read_bytes() == b"owned"


@pytest.mark.parametrize("link", ["/etc/shadow", "../../../x", "nowhere", "a" * 4000])
def test_links_are_data_and_arrive_as_they_are(target: Path, link: str) -> None:
    archive = forge(pax({b"linkpath": link.encode()}), Forged(name=b"link", type=b"2"))
    unpack(target, archive)
    assert (target / "link").readlink() == Path(link)


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777, 0o7777])
def test_setuid_setgid_and_sticky_bits_are_cleared(target: Path, mode: int) -> None:
    unpack(
        target,
        forge(Forged(name=b"f", data=b"x", mode=mode), Forged(name=b"d/", type=b"5", mode=mode)),
    )
    assert stat.S_IMODE((target / "f").stat().st_mode) == mode & 0o777
    assert stat.S_IMODE((target / "d").stat().st_mode) == mode & 0o777


@pytest.mark.parametrize("type_", [b"3", b"4", b"6"])
def test_devices_and_pipes_are_left_out_and_named(target: Path, type_: bytes) -> None:
    unpacker = unpack(target, forge(Forged(name=b"dev\x1b[2J", type=type_), Forged(name=b"f")))
    assert [path.name for path in target.iterdir()] == ["f"]
    assert unpacker.skipped == ["dev\\x1b[2J"]


@pytest.mark.parametrize("type_", [b"S", b"D", b"M", b"V", b"A", b"\xff"])
def test_unknown_kinds_are_refused(target: Path, type_: bytes) -> None:
    with pytest.raises(PathRefused):
        unpack(target, forge(Forged(name=b"f", type=type_)))


@pytest.mark.parametrize(
    "size_field",
    [
        b"\xff" * 12,
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\x00",
        b"\x80" + b"\xff" * 11,
        b"-0000000001\0",
        b"0x000000010\0",
        b"00000000009\0",
        b"77777777777\0",
    ],
)
def test_lying_sizes_are_refused(target: Path, size_field: bytes) -> None:
    limits = UnpackLimits(max_bytes=1 << 20)
    with pytest.raises(PathRefused):
        unpack(target, forge(Forged(name=b"f", data=b"x", size_field=size_field)), limits=limits)
    assert list(target.iterdir()) == []


def test_a_size_in_base_256_is_understood(target: Path) -> None:
    field = b"\x80" + (5).to_bytes(11, "big")
    unpack(target, forge(Forged(name=b"f", data=b"hello", size_field=field)))
    assert (target / "f").read_bytes() == b"hello"


@pytest.mark.parametrize("size", [b"-1", b"1e9", b"", b"99999999999999999999999", b" 5", b"+5"])
def test_a_pax_size_that_is_no_size_is_refused(target: Path, size: bytes) -> None:
    with pytest.raises(PathRefused):
        unpack(target, forge(pax({b"size": size}), Forged(name=b"f", data=b"hello")))


def test_a_pax_size_counts_for_the_limit(target: Path) -> None:
    with pytest.raises(PathRefused, match="larger than"):
        unpack(
            target,
            forge(pax({b"size": b"1000000000"}), Forged(name=b"f", data=b"hello")),
            limits=UnpackLimits(max_bytes=1 << 20),
        )


@pytest.mark.parametrize("path", [b"../escape", b"/escape", b"a\0b", b"a/" * 3000 + b"x", b""])
def test_a_pax_name_is_checked_like_any(target: Path, path: bytes) -> None:
    with pytest.raises(PathRefused):
        unpack(target, forge(pax({b"path": path}), Forged(name=b"innocent", data=b"x")))


@pytest.mark.parametrize("type_", [b"L", b"x"])
def test_an_escape_by_a_long_name_is_refused(target: Path, type_: bytes) -> None:
    name = b"a/" * 100 + b"../" * 101 + b"escape"
    header = (
        pax({b"path": name}) if type_ == b"x" else Forged(name=b"L", type=b"L", data=name + b"\0")
    )
    with pytest.raises(PathRefused):
        unpack(target, forge(header, Forged(name=b"short", data=b"x")))


def test_gnu_long_names_are_understood(target: Path) -> None:
    name = b"d" * 150 + b"/" + b"f" * 150
    unpack(
        target,
        forge(Forged(name=b"L", type=b"L", data=name + b"\0"), Forged(name=name[:100], data=b"x")),
    )
    assert (target / name.decode()).read_bytes() == b"x"


def test_a_pax_override_holds_for_one_member_only(target: Path) -> None:
    unpack(target, forge(pax({b"path": b"one"}), Forged(name=b"x"), Forged(name=b"two")))
    assert sorted(path.name for path in target.iterdir()) == ["one", "two"]


def test_a_global_pax_header_overrides_nothing(target: Path) -> None:
    unpack(target, forge(pax({b"path": b"../escape"}, type=b"g"), Forged(name=b"f")))
    assert [path.name for path in target.iterdir()] == ["f"]


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b"5 a=b\n",
        b"999999 path=x\n",
        b"0 path=x\n",
        b"-5 path=x\n",
        b"9 path=x\n" + b"\0" * 10,
    ],
)
def test_a_broken_pax_header_is_refused(target: Path, data: bytes) -> None:
    with pytest.raises(PathRefused):
        unpack(target, forge(Forged(name=b"p", type=b"x", data=data), Forged(name=b"f")))


@pytest.mark.parametrize("key", [b"GNU.sparse.major", b"GNU.sparse.map", b"GNU.sparse.realsize"])
def test_sparse_members_are_refused(target: Path, key: bytes) -> None:
    with pytest.raises(PathRefused, match="sparse"):
        unpack(target, forge(pax({key: b"1"}), Forged(name=b"f", data=b"x")))


def test_a_header_without_end_is_refused_before_it_is_held(target: Path) -> None:
    with pytest.raises(PathRefused, match="header of"):
        unpack(target, forge(Forged(name=b"p", type=b"x", size=1 << 30)))


@pytest.mark.parametrize("type_", [b"1", b"2", b"5", b"6"])
def test_data_on_what_has_none_is_refused(target: Path, type_: bytes) -> None:
    with pytest.raises(PathRefused, match="claims"):
        unpack(target, forge(Forged(name=b"f", type=type_, data=b"x", target=b"y")))


def test_a_damaged_header_is_refused(target: Path) -> None:
    archive = bytearray(forge(Forged(name=b"f", data=b"x")))
    archive[0] ^= 1
    with pytest.raises(PathRefused, match="checksum"):
        unpack(target, bytes(archive))


@pytest.mark.parametrize("cut", [1, 100, 512, 600, 1024, 1536])
def test_an_archive_cut_short_is_refused_and_leaves_no_half_file(target: Path, cut: int) -> None:
    archive = forge(Forged(name=b"f", data=b"x" * 1500))
    with pytest.raises(PathRefused, match="cut short"):
        unpack(target, archive[:cut])
    assert list(target.iterdir()) == []


def test_a_broken_copy_leaves_the_old_file(target: Path) -> None:
    (target / "f").write_text("old")
    with pytest.raises(PathRefused):
        unpack(target, forge(Forged(name=b"f", data=b"x" * 1500))[:1024])
    assert (target / "f").read_text() == "old"


def test_what_follows_the_end_is_not_read(target: Path) -> None:
    unpack(target, forge(Forged(name=b"f")) + forge(Forged(name=b"../escape")))
    assert [path.name for path in target.iterdir()] == ["f"]


def test_too_many_entries_are_refused(target: Path) -> None:
    archive = forge(*(Forged(name=b"%d" % number) for number in range(11)))
    with pytest.raises(PathRefused, match="more than 10 entries"):
        unpack(target, archive, limits=UnpackLimits(max_entries=10))


def test_headers_count_into_the_size(target: Path) -> None:
    archive = forge(*(pax({b"comment": b"x" * 100_000}) for _ in range(20)), Forged(name=b"f"))
    with pytest.raises(PathRefused, match="larger than"):
        unpack(target, archive, limits=UnpackLimits(max_bytes=1 << 20))


def test_many_files_together_pass_the_limit_too(target: Path) -> None:
    archive = forge(*(Forged(name=b"%d" % number, data=bytes(1 << 10)) for number in range(1000)))
    with pytest.raises(PathRefused, match="larger than"):
        unpack(target, archive, limits=UnpackLimits(max_bytes=1 << 19))


def test_a_deep_tree_is_refused(target: Path) -> None:
    with pytest.raises(PathRefused, match="nested deeper"):
        unpack(target, forge(pax({b"path": b"a/" * 1000 + b"f"}), Forged(name=b"x")))


def test_a_long_component_is_refused(target: Path) -> None:
    with pytest.raises(PathRefused, match="longer than 255"):
        unpack(target, forge(pax({b"path": b"a" * 256}), Forged(name=b"x")))


def test_a_closed_directory_can_still_be_filled(target: Path) -> None:
    archive = forge(
        Forged(name=b"ro/", type=b"5", mode=0o500),
        Forged(name=b"ro/in/", type=b"5", mode=0),
        Forged(name=b"ro/in/file", data=b"x"),
    )
    unpack(target, archive)
    assert stat.S_IMODE((target / "ro").stat().st_mode) == 0o500
    assert stat.S_IMODE((target / "ro/in").stat().st_mode) == 0
    (target / "ro/in").chmod(0o700)
    (target / "ro").chmod(0o700)
    assert (target / "ro/in/file").read_bytes() == b"x"


def test_a_directory_that_was_there_keeps_its_mode(target: Path) -> None:
    (target / "dir").mkdir(mode=0o700)
    unpack(target, forge(Forged(name=b"dir/", type=b"5", mode=0o777), Forged(name=b"dir/f")))
    assert stat.S_IMODE((target / "dir").stat().st_mode) == 0o700


def test_only_the_name_that_was_asked_for_is_taken(target: Path) -> None:
    with pytest.raises(PathRefused, match="not asked for"):
        unpack(
            target, forge(Forged(name=b"ok/f"), Forged(name=b".bashrc", data=b"evil")), top=b"ok"
        )
    assert not (target / ".bashrc").exists()


def test_the_top_can_be_renamed_with_hard_links_following(target: Path) -> None:
    archive = forge(
        Forged(name=b"top/", type=b"5", mode=0o755),
        Forged(name=b"top/a", data=b"x"),
        Forged(name=b"top/b", type=b"1", target=b"top/a"),
    )
    unpack(target, archive, top=b"top", rename=b"new")
    assert (target / "new/b").read_bytes() == b"x"
    assert not (target / "top").exists()


def test_a_target_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(PathRefused):
            Unpacker(path)


def test_a_full_disk_is_told_and_leaves_no_half_file(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(HostDiskFull):
        unpack(target, forge(Forged(name=b"f", data=b"x")))
    assert list(target.iterdir()) == []


def test_no_descriptor_is_left_open(target: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    archive = forge(Forged(name=b"a/b/c", data=b"x"), Forged(name=b"../x"))
    with pytest.raises(PathRefused):
        unpack(target, archive)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(data=st.binary(max_size=4096))
@settings(max_examples=200, deadline=None)
def test_noise_is_refused_and_nothing_else_happens(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("noise")
    with contextlib.suppress(PathRefused):
        unpack(target, data)
    assert list(target.parent.glob("escape*")) == []


@given(at=st.integers(min_value=0, max_value=2047), value=st.integers(min_value=0, max_value=255))
@settings(max_examples=300, deadline=None)
def test_one_wrong_byte_never_leads_outside(
    at: int, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("mutated")
    (base / "in").mkdir()
    archive = bytearray(
        forge(Forged(name=b"a", data=b"x"), pax({b"path": b"b"}), Forged(name=b"c"))
    )
    archive[at] = value
    with contextlib.suppress(PathRefused):
        unpack(base / "in", bytes(archive))
    assert [path.name for path in base.iterdir()] == ["in"]


def test_an_archive_of_pythons_own_is_taken(target: Path) -> None:
    for format_ in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=format_) as archive:
            info = tarfile.TarInfo(f"file{format_}")
            info.size, info.mtime = 3, 1000
            archive.addfile(info, io.BytesIO(b"abc"))
        unpack(target, buffer.getvalue())
        assert (target / f"file{format_}").read_bytes() == b"abc"


def test_the_end_alone_is_an_empty_archive(target: Path) -> None:
    assert unpack(target, END).entries == 0
