"""The way out of a machine that was copied, restored, taken over or booted again: shut until its host opens it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.vm.conftest import python, shell
from tests.vm.outside import echo, outside, tell_what_was_asked

from crucible import assemble
from crucible.config import Config
from crucible.errors import GuestGone
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.session import Chunk, Command, Process
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.spec import SandboxSpec
from crucible.sandbox.takeover import take_all_over

pytestmark = pytest.mark.vm

ASK = """
import socket
try:
    with socket.create_connection(("1.2.3.4", 80), 120) as s:
        print(s.recv(100).decode())
except OSError as error:
    print(error.strerror)
"""
SHUT = b"Network is unreachable\n"

# Says each word it gets over a connection that stays, then how that ended, then whether there is another way.
LISTENER = """
import socket
s = socket.create_connection(("kept.example", 80), 60)
s.sendall(b"word\\n")
print(s.recv(5).decode(), end="", flush=True)
try:
    print(s.recv(5).decode() or "end", flush=True)
except OSError as error:
    print(error.strerror, flush=True)
"""


@pytest.fixture(scope="module")
def named(manager: Manager, run: Run) -> Iterator[Held]:
    async def begin() -> Held:
        await manager.create("box", SandboxSpec())
        await manager.start("box")
        return manager.running("box")

    yield run(begin())
    for record in manager.records.sandboxes():
        run(manager.remove(record.name, force=True))


async def test_forks_come_up_with_the_network_off(named: Held, manager: Manager) -> None:
    async with outside(named, echo):
        listener = await listening(named)
        copies = await Snapshots(manager).fork("box", ["copy-1", "copy-2"])
        for copy in copies:
            assert (await python(copy, ASK)).output == SHUT
            kept = (await copy.machine.list_execs())[0]
            process = await copy.machine.attach(kept)
            assert await rest_of(process) == b"word\nConnection reset by peer\n"
        async with outside(copies[0], tell_what_was_asked) as host:
            assert (await python(copies[0], ASK)).output == b" 1.2.3.4 80\n"
            assert (await python(copies[1], ASK)).output == SHUT
        assert len(host.asked) == 1
        assert await goes_on(named)
        await listener.forget()


async def test_a_snapshot_restores_with_the_network_off(named: Held, manager: Manager) -> None:
    snapshots = Snapshots(manager)
    async with outside(named, tell_what_was_asked):
        await snapshots.take("box", "moment")
        assert await goes_on(named)
    restored = await snapshots.restore("moment", "restored")
    assert (await python(restored, ASK)).output == SHUT
    async with outside(restored, tell_what_was_asked):
        assert await goes_on(restored)
    await snapshots.remove("moment")


async def test_a_machine_that_was_stopped_boots_with_the_network_off(
    named: Held, manager: Manager
) -> None:
    outlet = await named.machine.outlet()
    waiting = asyncio.create_task(outlet.next())
    await manager.stop("box")
    with pytest.raises(GuestGone):
        await waiting
    await manager.start("box")
    held = manager.running("box")
    assert (await python(held, ASK)).output == SHUT
    async with outside(held, tell_what_was_asked):
        assert await goes_on(held)


async def test_the_next_owner_opens_the_way_again(manager: Manager, module_home: Path) -> None:
    await manager.create("orphan", SandboxSpec())
    await manager.start("orphan")
    held = manager.running("orphan")
    await held.machine.outlet()
    # Nobody answers: the program waits when its owner dies, and is told when the next one comes.
    await held.machine.start(Command(argv=[b"python3", b"-c", ASK.encode()]))
    await shell(
        held,
        "until grep -q 04030201:0050 /proc/net/tcp; do :; done",
    )
    await manager.hands.let_all_go()
    successor = assemble.manager(Config(home=module_home))
    await take_all_over(successor)
    try:
        held = successor.running("orphan")
        process = await held.machine.attach((await held.machine.list_execs())[0])
        assert await rest_of(process) == b"Connection reset by peer\n"
        assert (await python(held, ASK)).output == SHUT
        async with outside(held, tell_what_was_asked):
            assert await goes_on(held)
    finally:
        await successor.remove("orphan", force=True)
        await successor.hands.let_all_go()
        await take_all_over(manager)


async def listening(held: Held) -> Process:
    process = await held.machine.start(Command(argv=[b"python3", b"-c", LISTENER.encode()]))
    chunk = await process.read()
    assert isinstance(chunk, Chunk)
    assert chunk.data == b"word\n"
    return process


async def rest_of(process: Process) -> bytes:
    said = b""
    while (chunk := await process.read()) is not None:
        said += chunk.data
    await process.forget()
    return said


async def goes_on(held: Held) -> bool:
    """Whether a host outside is reached through the network that is on."""
    done = await python(
        held,
        "import socket; s = socket.create_connection(('a.example', 80), 60); s.sendall(b'x'); print(len(s.recv(1)))",
    )
    return done.output == b"1\n"
