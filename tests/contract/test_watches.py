"""Directories of a sandbox that are watched from the host, whatever boots the sandbox."""

from __future__ import annotations

import itertools

import pytest

from crucible.errors import GuestRefused
from crucible.sandbox.backend import Machine
from crucible.sandbox.session import Change, Command, Watch

pytestmark = pytest.mark.vm

_numbers = itertools.count()


@pytest.fixture
def place() -> bytes:
    return b"/workspace/watched-%d" % next(_numbers)


async def shell(machine: Machine, script: bytes, place: bytes) -> None:
    done = await machine.run(Command(argv=[b"/bin/sh", b"-ec", script], workdir=place))
    assert done.exit.status == 0, done.errors


async def until(watch: Watch, kind: str, name: bytes) -> list[Change]:
    """Everything that is told up to one change."""
    seen: list[Change] = []
    while not seen or (seen[-1].kind, seen[-1].name) != (kind, name):
        change = await watch.next()
        assert change is not None, seen
        seen.append(change)
    return seen


async def test_everything_that_happens_to_a_name_is_told(machine: Machine, place: bytes) -> None:
    await machine.files.mkdir(place)
    watch = await machine.watch(place)
    await shell(machine, b"echo x > a; chmod 600 a; mv a b; rm b; echo > last", place)
    seen = [(change.kind, change.name) for change in await until(watch, "created", b"last")]
    assert seen == [
        ("created", b"a"),
        ("written", b"a"),
        ("attributes", b"a"),
        ("renamed", b"a"),
        ("created", b"b"),
        ("removed", b"b"),
        ("created", b"last"),
    ]
    await watch.close()


async def test_a_file_that_the_host_writes_is_told_under_its_own_name(
    machine: Machine, place: bytes
) -> None:
    await machine.files.mkdir(place)
    watch = await machine.watch(place)
    await machine.files.write(place + b"/f", b"1")
    await machine.files.write(place + b"/f", b"2")
    await shell(machine, b"mkdir last", place)
    seen = [(change.kind, change.name) for change in await until(watch, "created", b"last")]
    assert seen == [
        ("created", b"f"),
        ("written", b"f"),
        ("written", b"f"),
        ("created", b"last"),
    ]
    await watch.close()


async def test_only_a_recursive_watch_tells_what_happens_below(
    machine: Machine, place: bytes
) -> None:
    await machine.files.mkdir(place + b"/old", parents=True)
    flat = await machine.watch(place)
    deep = await machine.watch(place, recursive=True)
    script = b"echo > old/x; mkdir -p new/er; echo > new/er/y; mv new moved; echo > moved/er/z"
    await shell(machine, script, place)
    await until(deep, "created", b"moved/er/z")
    await shell(machine, b"echo > last", place)
    told = {change.name for change in await until(flat, "created", b"last")}
    assert told == {b"new", b"moved", b"last"}
    await flat.close()
    await deep.close()


async def test_what_lies_in_a_new_directory_is_never_missed(machine: Machine, place: bytes) -> None:
    await machine.files.mkdir(place)
    watch = await machine.watch(place, recursive=True)
    await shell(machine, b"mkdir -p a/b/c/d; echo > a/b/c/d/e", place)
    await until(watch, "created", b"a/b/c/d/e")
    await watch.close()


async def test_a_directory_that_was_moved_is_told_of_under_its_new_name_alone(
    machine: Machine, place: bytes
) -> None:
    await machine.files.mkdir(place + b"/old/deep", parents=True)
    watch = await machine.watch(place, recursive=True)
    await shell(machine, b"mv old new; echo > new/deep/x; mv new /tmp/away%d" % id(place), place)
    await shell(machine, b"echo > /tmp/away%d/deep/y; echo > last" % id(place), place)
    names = [change.name for change in await until(watch, "created", b"last")]
    assert b"new/deep/x" in names
    assert not {b"old/deep/x", b"new/deep/y", b"old/deep/y"} & set(names)
    await watch.close()


async def test_names_are_any_bytes(machine: Machine, place: bytes) -> None:
    await machine.files.mkdir(place)
    watch = await machine.watch(place)
    await machine.files.mkdir(place + b"/\xff\n")
    await until(watch, "created", b"\xff\n")
    await watch.close()


async def test_a_watch_that_nobody_reads_tells_that_it_missed_changes(
    machine: Machine, place: bytes
) -> None:
    """The kernel keeps 16,384 changes, and the window holds some thousand."""
    place = b"/dev/shm/" + place.rpartition(b"/")[2]
    await machine.files.mkdir(place)
    watch = await machine.watch(place)
    names = b"'a' * 100, 'b' * 100"
    loop = b"import os; one, two = %s; os.mkdir(one)\nfor _ in range(5500): " % names
    loop += b"os.rename(one, two); os.rename(two, one)"
    done = await machine.run(Command(argv=[b"python3", b"-c", loop], workdir=place))
    assert done.exit.status == 0, done.errors
    seen = 0
    while (change := await watch.next()) is not None and change.kind != "overflow":
        seen += 1
    assert change is not None
    assert seen < 22_000
    await shell(machine, b"echo > last", place)
    await until(watch, "created", b"last")
    await watch.close()


async def test_a_watch_ends_when_its_directory_does(machine: Machine, place: bytes) -> None:
    await machine.files.mkdir(place)
    watch = await machine.watch(place, recursive=True)
    await machine.files.remove(place, recursive=True)
    while await watch.next() is not None:
        pass
    await watch.close()


@pytest.mark.parametrize(
    "path, code", [(b"/no/such", "not-found"), (b"/etc/passwd", "not-a-directory")]
)
async def test_only_directories_can_be_watched(machine: Machine, path: bytes, code: str) -> None:
    with pytest.raises(GuestRefused) as refused:
        await machine.watch(path)
    assert refused.value.guest_code == code


async def test_a_link_in_a_watched_directory_leads_nowhere(machine: Machine, place: bytes) -> None:
    await machine.files.mkdir(place)
    await machine.files.mkdir(place + b"-outside")
    watch = await machine.watch(place, recursive=True)
    await shell(machine, b"ln -s %s-outside link; echo > link/x; echo > last" % place, place)
    seen = await until(watch, "created", b"last")
    assert [change.name for change in seen] == [b"link", b"last"]
    await watch.close()
