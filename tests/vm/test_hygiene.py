"""Copies of one machine share nothing that ought to be random, and none runs before it is its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.conftest import Run
from tests.vm.conftest import python, shell

from crucible.backends.qemu.machine import QemuMachine
from crucible.errors import GuestRefused
from crucible.sandbox.backend import Machine
from crucible.sandbox.guest.session import GuestSession
from crucible.sandbox.holding import Held
from crucible.sandbox.identity import new_identity
from crucible.sandbox.manager import Manager
from crucible.sandbox.session import Command
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

SOURCES = {
    "urandom": "head -c 32 /dev/urandom | od -An -tx1",
    "random": "head -c 32 /dev/random | od -An -tx1",
    "getrandom": "python3 -c 'import os; print(os.getrandom(32))'",
    "uuid4": "python3 -c 'import uuid; print(uuid.uuid4())'",
    "kernel-uuid": "cat /proc/sys/kernel/random/uuid",
    "machine-id": "cat /etc/machine-id",
    "boot-id": "cat /proc/sys/kernel/random/boot_id",
    "hostname": "hostname; cat /etc/hostname",
    "address-space": "cat /proc/self/maps | head -1",
    "auxiliary-random": "od -An -tx1 /proc/self/auxv; python3 -c 'import sys; print(hash(\"x\"))'",
}
# A process that lives through the fork, and asks only afterwards.
SURVIVOR = b"""
import os, random, sys, time, uuid
early = random.random()
print("drawn", flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.02)
with open("/tmp/answer.new", "w") as file:
    print(early, uuid.uuid4(), os.urandom(16).hex(), file=file)
os.rename("/tmp/answer.new", "/tmp/answer")
"""


class Family(NamedTuple):
    """`made_in_s`: none was told the time, or stood still, for longer than that."""

    members: list[Held]
    made_in_s: float


@pytest.fixture(scope="module")
def family(manager: Manager, run: Run) -> Iterator[Family]:
    """Two forks of a running sandbox, the sandbox itself, and one from the same template."""

    async def make() -> Family:
        began = time.monotonic()
        for name in ("first", "other"):
            await manager.create(name, SandboxSpec())
            await manager.start(name)
        held = manager.running("first")
        process = await held.machine.start(Command(argv=[b"python3", b"-c", SURVIVOR]))
        assert await process.read() is not None
        await Snapshots(manager).fork("first", ["fork-1", "fork-2"])
        members = [manager.running(name) for name in ("first", "other", "fork-1", "fork-2")]
        return Family(members, time.monotonic() - began)

    async def remove() -> None:
        for record in manager.records.sandboxes():
            await manager.remove(record.name, force=True)

    yield run(make())
    run(remove())


@pytest.fixture(scope="module")
def siblings(family: Family) -> list[Held]:
    return family.members


@pytest.fixture(scope="module")
def drawn(siblings: list[Held], run: Run) -> dict[str, list[bytes]]:
    """What each source gave in each of them: one shell asks all."""
    script = "set -e\n" + "\n".join(f"{{ {words}; }}; printf '\\0'" for words in SOURCES.values())

    async def asked() -> list[list[bytes]]:
        done = [await shell(held, script, timeout_s=300) for held in siblings]
        assert [item.exit.status for item in done] == [0] * len(siblings)
        return [item.output.split(b"\0")[:-1] for item in done]

    parts = zip(*run(asked()), strict=True)
    return {source: list(part) for source, part in zip(SOURCES, parts, strict=True)}


@pytest.mark.parametrize("source", SOURCES)
def test_no_two_copies_give_the_same(drawn: dict[str, list[bytes]], source: str) -> None:
    assert all(drawn[source])
    assert len(set(drawn[source])) == len(drawn[source]) == 4


async def test_a_process_that_was_copied_draws_other_numbers(siblings: list[Held]) -> None:
    answers = []
    for held in (siblings[0], *siblings[2:]):
        await shell(held, "touch /tmp/go; while ! test -e /tmp/answer; do sleep 0.02; done")
        answers.append((await shell(held, "cat /tmp/answer")).output.split())
    # What it had drawn before is the same in all: it is the very same process.
    assert len({answer[0] for answer in answers}) == 1
    assert len({answer[1] for answer in answers}) == len({answer[2] for answer in answers}) == 3


async def test_ids_have_the_form_that_programs_expect(siblings: list[Held]) -> None:
    for held in siblings:
        done = await shell(held, "cat /etc/machine-id /proc/sys/kernel/random/boot_id")
        machine_id, boot_id = done.output.decode().split()
        assert len(machine_id) == 32
        assert int(machine_id, 16)
        assert [len(part) for part in boot_id.split("-")] == [8, 4, 4, 4, 12]


async def test_the_hostname_is_the_sandboxs_name_and_resolves(siblings: list[Held]) -> None:
    for held in siblings:
        done = await python(
            held, "import socket; n = socket.gethostname(); print(n, socket.gethostbyname(n))"
        )
        name, address = done.output.decode().split()
        assert (name, address[:4]) == (held.record.name, "127.")


async def test_names_that_were_changed_inside_are_made_right_and_the_rest_is_kept(
    manager: Manager,
) -> None:
    async with manager.open(SandboxSpec()) as held:
        assert isinstance(held.machine, QemuMachine)
        await shell(
            held,
            "echo 10.1.2.3 db >> /etc/hosts; echo mine > /etc/hostname;"
            " rm /etc/machine-id; ln -s /etc/passwd /etc/machine-id",
        )
        identity = new_identity("renamed")
        await held.machine.guest.prepare(identity)
        names = (await shell(held, "cat /etc/hostname /etc/machine-id; hostname")).output.decode()
        assert names.split() == ["renamed", identity.machine_id, "renamed"]
        found = (await shell(held, "getent hosts db; getent hosts renamed")).output.decode()
        assert "10.1.2.3" in found
        assert "127.0.1.1" in found
        assert b"root:" in (await shell(held, "head -1 /etc/passwd")).output


async def test_the_clock_is_the_hosts(family: Family) -> None:
    for held in family.members:
        before = time.time()
        there = float((await shell(held, "date +%s.%N")).output)
        assert before - family.made_in_s < there < time.time() + 1


async def test_the_clock_of_a_copy_keeps_the_pace_of_the_hosts(siblings: list[Held]) -> None:
    """It looks at its clock twice, each time after it is asked here and before its answer is seen here."""
    program = b"import time\nfor _ in range(2): input(); print(time.time(), flush=True)"
    command = Command(argv=[b"python3", b"-c", program], wants_input=True)
    process = await siblings[0].machine.start(command)

    async def look() -> tuple[float, float, float]:
        asked = time.monotonic()
        await process.write(b"\n")
        chunk = await process.read()
        assert chunk is not None
        return asked, float(chunk.data), time.monotonic()

    earliest, first, latest = await look()
    await asyncio.sleep(3)
    asked, second, answered = await look()
    await process.forget()
    assert 0.9 * (asked - latest) < second - first < 1.1 * (answered - earliest)


async def test_a_copy_that_was_not_prepared_runs_nothing_and_shows_nothing(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr(GuestSession, "prepare", nothing)
    async with manager.open(SandboxSpec()) as held:
        for attempt in (_exec, _read, _write, _dial):
            with pytest.raises(GuestRefused) as refused:
                await attempt(held.machine)
            assert refused.value.guest_code in ("not-prepared", "frozen")


async def _exec(machine: Machine) -> None:
    await machine.run(Command(argv=[b"head", b"-c", b"16", b"/dev/urandom"]))


async def _read(machine: Machine) -> None:
    async for _ in machine.files.read(b"/etc/machine-id"):
        pass


async def _write(machine: Machine) -> None:
    await machine.files.write(b"/tmp/early", b"x")


async def _dial(machine: Machine) -> None:
    await machine.dial(80)
