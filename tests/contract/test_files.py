"""Files of a sandbox, written and read from the host, whatever boots the sandbox."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crucible.errors import GuestRefused
from crucible.sandbox.backend import Machine
from crucible.sandbox.session import Command

pytestmark = pytest.mark.vm

EVERY_BYTE = bytes(range(256))
ODD_NAMES = [
    b"a b",
    b"\xff\xfe",
    b"line\nbreak",
    b"-rf",
    b"*",
    b"\xe2\x80\xae",
    b"x" * 255,
    b"'\"\\",
]

_numbers = itertools.count()


@pytest.fixture
def place() -> bytes:
    """A directory of the sandbox that nobody else uses; it does not exist yet."""
    return b"/workspace/place-%d" % next(_numbers)


async def collected(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def poured(data: bytes, size: int = 50_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def shell(machine: Machine, script: bytes) -> bytes:
    done = await machine.run(Command(argv=[b"/bin/sh", b"-ec", script]))
    assert done.exit.status == 0, done.errors
    return done.output


async def attempt(machine: Machine, verb: str, path: bytes) -> None:
    match verb:
        case "read":
            await collected(machine.files.read(path))
        case "write":
            await machine.files.write(path, b"x")
        case "stat":
            await machine.files.stat(path)
        case "list":
            await machine.files.list(path)
        case "remove":
            await machine.files.remove(path)
        case "mkdir":
            await machine.files.mkdir(path)


async def refused_with(machine: Machine, code: str, path: bytes, verb: str) -> None:
    with pytest.raises(GuestRefused) as refused:
        await attempt(machine, verb, path)
    assert refused.value.guest_code == code


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 5 << 20])
async def test_a_file_comes_back_as_it_was_written(
    machine: Machine, place: bytes, size: int
) -> None:
    data = os.urandom(size)
    assert await machine.files.write(place, data) == size
    assert await collected(machine.files.read(place)) == data


async def test_a_file_written_from_pieces_is_whole(machine: Machine, place: bytes) -> None:
    data = EVERY_BYTE * 10_000
    await machine.files.write(place, poured(data, 777))
    assert await collected(machine.files.read(place)) == data


async def test_appending_adds_to_the_end(machine: Machine, place: bytes) -> None:
    await machine.files.write(place, b"one", append=True)
    await machine.files.write(place, b"two", append=True)
    assert await collected(machine.files.read(place)) == b"onetwo"


async def test_writing_replaces_the_whole_file(machine: Machine, place: bytes) -> None:
    await machine.files.write(place, b"a long first content")
    await machine.files.write(place, b"short")
    assert await collected(machine.files.read(place)) == b"short"


async def test_a_reader_of_a_replaced_file_keeps_the_old_one(
    machine: Machine, place: bytes
) -> None:
    await machine.files.write(place, b"old")
    script = b"exec 3<%s; mv %s.new %s; cat <&3" % (place, place, place)
    await machine.files.write(place + b".new", b"new")
    assert await shell(machine, script) == b"old"


@pytest.mark.parametrize(
    "offset, length, expected",
    [(0, 3, b"012"), (7, 0, b"789"), (8, 100, b"89"), (10, 0, b""), (9999, 5, b"")],
)
async def test_a_part_of_a_file_can_be_read(
    machine: Machine, place: bytes, offset: int, length: int, expected: bytes
) -> None:
    await machine.files.write(place, b"0123456789")
    got = await collected(machine.files.read(place, offset=offset, length=length))
    assert got == expected


async def test_mode_and_owner_are_those_asked_for(machine: Machine, place: bytes) -> None:
    await machine.files.write(place, b"x", mode=0o640, owner="nobody")
    assert await shell(machine, b"stat -c '%%a %%U' %s" % place) == b"640 nobody\n"


async def test_missing_directories_are_made_only_when_asked_for(
    machine: Machine, place: bytes
) -> None:
    await refused_with(machine, "not-found", place + b"/a/b", "write")
    await machine.files.write(place + b"/a/b", b"deep", make_parents=True)
    assert await collected(machine.files.read(place + b"/a/b")) == b"deep"


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
async def test_odd_names_survive_writing_listing_renaming_and_removing(
    machine: Machine, place: bytes, name: bytes
) -> None:
    await machine.files.mkdir(place)
    await machine.files.write(place + b"/" + name, b"odd")
    assert [entry.name for entry in await machine.files.list(place)] == [name]
    await machine.files.rename(place + b"/" + name, place + b"/plain")
    await machine.files.rename(place + b"/plain", place + b"/" + name)
    assert await collected(machine.files.read(place + b"/" + name)) == b"odd"
    await machine.files.remove(place + b"/" + name)
    assert await machine.files.list(place) == []


async def test_stat_tells_what_is_there(machine: Machine, place: bytes) -> None:
    await machine.files.mkdir(place, mode=0o711)
    await machine.files.write(place + b"/file", b"12345", mode=0o4755)
    await shell(machine, b"cd %s; ln -s file link; mkfifo pipe; touch -d @5 file" % place)
    entries = {entry.name: entry for entry in await machine.files.list(place)}
    directory = await machine.files.stat(place)
    followed = await machine.files.stat(place + b"/link")
    assert {name: entry.type for name, entry in entries.items()} == {
        b"file": "file",
        b"link": "symlink",
        b"pipe": "other",
    }
    assert (directory.type, directory.mode) == ("directory", 0o711)
    assert (entries[b"file"].mode, entries[b"file"].size) == (0o4755, 5)
    assert entries[b"file"].mtime_ns == 5_000_000_000
    assert (entries[b"link"].target, followed.type) == (b"file", "file")
    assert (await machine.files.stat(place + b"/link", follow=False)).type == "symlink"


async def test_a_directory_of_thousands_is_listed_whole(machine: Machine, place: bytes) -> None:
    await shell(machine, b"mkdir %s; cd %s; seq 3000 | xargs touch" % (place, place))
    names = {int(entry.name) for entry in await machine.files.list(place)}
    assert names == set(range(1, 3001))


async def test_a_directory_with_something_in_it_is_removed_only_recursively(
    machine: Machine, place: bytes
) -> None:
    await machine.files.write(place + b"/inner/file", b"", make_parents=True)
    with pytest.raises(GuestRefused):
        await machine.files.remove(place)
    await machine.files.remove(place, recursive=True)
    await refused_with(machine, "not-found", place, "stat")


async def test_removing_a_tree_does_not_follow_its_symlinks(machine: Machine, place: bytes) -> None:
    await machine.files.write(place + b"-kept/file", b"kept", make_parents=True)
    await shell(machine, b"mkdir %s; ln -s %s-kept %s/link" % (place, place, place))
    await machine.files.remove(place, recursive=True)
    assert await collected(machine.files.read(place + b"-kept/file")) == b"kept"


async def test_a_file_written_through_a_symlink_is_the_guests_own(
    machine: Machine, place: bytes
) -> None:
    await shell(machine, b"ln -s /etc/hostname %s" % place)
    await machine.files.write(place, b"inside")
    assert (await shell(machine, b"cat %s" % place)) == b"inside"
    assert Path("/etc/hostname").read_bytes() != b"inside"  # noqa: ASYNC240


@pytest.mark.parametrize(
    "verb, path, code",
    [
        ("read", b"/nosuch", "not-found"),
        ("read", b"/etc", "is-a-directory"),
        ("read", b"/etc/passwd/x", "not-a-directory"),
        ("read", b"relative", "bad-request"),
        ("read", b"", "bad-request"),
        ("list", b"/etc/passwd", "not-a-directory"),
        ("list", b"/nosuch", "not-found"),
        ("write", b"/etc", "is-a-directory"),
        ("mkdir", b"/etc", "exists"),
        ("remove", b"/nosuch", "not-found"),
        ("stat", b"/a\0b", "bad-request"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_its_reason(
    machine: Machine, verb: str, path: bytes, code: str
) -> None:
    await refused_with(machine, code, path, verb)


async def test_reading_something_that_never_ends_can_be_left(machine: Machine) -> None:
    with contextlib.suppress(GuestRefused):
        async with contextlib.aclosing(machine.files.read(b"/dev/zero")) as reading:  # type: ignore[type-var]
            await anext(reading)
    assert await shell(machine, b"echo alive") == b"alive\n"


async def test_reading_a_pipe_without_a_writer_does_not_hang(
    machine: Machine, place: bytes
) -> None:
    await shell(machine, b"mkfifo %s" % place)
    with pytest.raises(GuestRefused):
        await collected(machine.files.read(place))


async def test_an_archive_put_in_keeps_modes_links_times_and_bytes(
    machine: Machine, place: bytes
) -> None:
    await machine.files.mkdir(place)
    assert await machine.files.tar_in(place, poured(_archive(), 1000)) == 6
    listing = await shell(machine, b"cd %s; stat -c '%%n %%F %%a %%h' *" % place)
    assert listing.decode().splitlines() == [
        "hard regular file 750 2",
        "link symbolic link 777 1",
        "run regular file 750 2",
        "sub directory 700 2",
    ]
    odd = await machine.files.stat(place + b"/sub/\xff")
    assert (odd.mode, odd.size) == (0o4711, 256)
    assert await shell(machine, b"readlink %s/link" % place) == b"run\n"
    assert await shell(machine, b"cat %s/hard" % place) == b"#!/bin/sh\n"
    assert await shell(machine, b"stat -c %%Y %s/run" % place) == b"1000000000\n"


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        script = b"#!/bin/sh\n"
        file = tarfile.TarInfo("run")
        file.size, file.mode, file.mtime = len(script), 0o750, 1_000_000_000
        archive.addfile(file, io.BytesIO(script))
        directory = tarfile.TarInfo("sub")
        directory.type, directory.mode = tarfile.DIRTYPE, 0o700
        archive.addfile(directory)
        odd = tarfile.TarInfo("sub/" + os.fsdecode(b"\xff"))
        odd.size, odd.mode = 256, 0o4711
        archive.addfile(odd, io.BytesIO(EVERY_BYTE))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "run"
        archive.addfile(link)
        hard = tarfile.TarInfo("hard")
        hard.type, hard.linkname = tarfile.LNKTYPE, "run"
        archive.addfile(hard)
        long = tarfile.TarInfo("sub/" + "n" * 200)
        archive.addfile(long)
    return buffer.getvalue()


async def test_an_archive_taken_out_keeps_modes_links_and_bytes(
    machine: Machine, place: bytes
) -> None:
    await shell(
        machine,
        b"mkdir -m 700 %s; cd %s; printf data > file; chmod 4711 file; ln file hard; ln -s nowhere link;"
        b" mkdir -m 1777 sub; touch -d @7 sub/old; printf x > $(printf 'sub/\\377')"
        % (place, place),
    )
    data = await collected(machine.files.tar_out(place))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {member.name.removeprefix("./"): member for member in archive}
        names = {"file", "hard", "link", "sub", "sub/old", "sub/" + os.fsdecode(b"\xff")}
        assert names <= set(members)
        assert members["file"].mode & 0o7777 == 0o4711
        assert members["sub"].mode & 0o7777 == 0o1777
        assert (members["link"].issym(), members["link"].linkname) == (True, "nowhere")
        assert {members["file"].islnk(), members["hard"].islnk()} == {True, False}
        assert members["sub/old"].mtime == 7
        stored = members["hard"] if members["file"].islnk() else members["file"]
        content = archive.extractfile(stored)
        assert content is not None
        assert content.read() == b"data"


async def test_an_archive_of_some_names_holds_only_those(machine: Machine, place: bytes) -> None:
    await shell(machine, b"mkdir -p %s/a %s/b; touch %s/a/1 %s/b/2 %s/c" % ((place,) * 5))
    data = await collected(machine.files.tar_out(place, [b"a", b"c"]))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert set(archive.getnames()) == {"a", "a/1", "c"}


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a/../../escaped", "link/escaped"])
async def test_an_archive_cannot_write_outside_its_root(
    machine: Machine, place: bytes, name: str
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/workspace"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo(name))
    await machine.files.mkdir(place)
    with pytest.raises(GuestRefused) as refused:
        await machine.files.tar_in(place, poured(buffer.getvalue()))
    assert refused.value.guest_code == "unsafe-archive"
    assert await shell(machine, b"ls -d /escaped /workspace/escaped 2>/dev/null || true") == b""


async def test_an_archive_cut_short_is_refused(machine: Machine, place: bytes) -> None:
    await machine.files.mkdir(place)
    with pytest.raises(GuestRefused):
        await machine.files.tar_in(place, poured(_archive()[:517]))


async def test_bytes_that_are_no_archive_are_refused(machine: Machine, place: bytes) -> None:
    await machine.files.mkdir(place)
    with pytest.raises(GuestRefused):
        await machine.files.tar_in(place, poured(os.urandom(4096)))


async def test_a_tree_is_walked_in_order_with_the_digests_of_its_files(
    machine: Machine, place: bytes
) -> None:
    await machine.files.write(place + b"/b/2", b"two", make_parents=True)
    await machine.files.write(place + b"/a", b"one")
    await machine.files.write(place + b"/b.c", b"three")
    entries = [entry async for entry in machine.files.tree(place, hashed=True)]
    assert [entry.name for entry in entries] == sorted([b"a", b"b", b"b/2", b"b.c"])
    assert entries[0].sha256 == hashlib.sha256(b"one").digest()


async def test_twenty_megabytes_survive_both_ways_in_one_archive(
    machine: Machine, place: bytes
) -> None:
    data = os.urandom(1 << 20)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number in range(20):
            file = tarfile.TarInfo(f"{number}")
            file.size = len(data)
            archive.addfile(file, io.BytesIO(data))
    await machine.files.mkdir(place)
    await machine.files.tar_in(place, poured(buffer.getvalue()))
    back = await collected(machine.files.tar_out(place))
    with tarfile.open(fileobj=io.BytesIO(back)) as archive:
        contents = [archive.extractfile(member) for member in archive.getmembers()]
        assert [file.read() for file in contents if file is not None] == [data] * 20
