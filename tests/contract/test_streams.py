"""Many things at once over one channel: nobody disturbs or stalls anybody, and memory stays bounded."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import resource
from collections.abc import AsyncIterator

import pytest

from crucible.errors import GuestRefused
from crucible.sandbox.backend import Machine
from crucible.sandbox.session import Command, Completed, Process

pytestmark = pytest.mark.vm

ECHO_SERVER = b"""
import socket, sys
listener = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.sendall(b"bye")
    connection.close()
"""


async def shell(machine: Machine, script: str) -> Completed:
    return await machine.run(Command(argv=[b"/bin/sh", b"-c", script.encode()]))


@contextlib.asynccontextmanager
async def running(machine: Machine, *argv: bytes) -> AsyncIterator[Process]:
    process = await machine.start(Command(argv=argv))
    try:
        yield process
    finally:
        await process.forget()


@contextlib.asynccontextmanager
async def echo_server(machine: Machine, address: bytes = b"127.0.0.1") -> AsyncIterator[int]:
    """A server in the sandbox that sends back what it gets; gives its port."""
    async with running(machine, b"python3", b"-c", ECHO_SERVER, address) as process:
        chunk = await process.read()
        assert chunk is not None
        yield int(chunk.data)


async def test_commands_at_once_do_not_mix_their_output(machine: Machine) -> None:
    done = await asyncio.gather(
        *(shell(machine, f"for i in $(seq 50); do echo {n}; done; exit {n}") for n in range(12))
    )
    assert [item.output for item in done] == [b"%d\n" % n * 50 for n in range(12)]
    assert [item.exit.status for item in done] == list(range(12))


async def test_a_command_nobody_reads_stalls_no_other(machine: Machine) -> None:
    async with running(machine, b"cat", b"/dev/zero") as stalled:
        await stalled.read()
        done = await asyncio.gather(*(shell(machine, "seq 50000 | tail -1") for _ in range(3)))
        assert [item.output for item in done] == [b"50000\n"] * 3
        assert await stalled.read() is not None


async def test_a_file_nobody_reads_stalls_no_command(machine: Machine) -> None:
    await shell(machine, "head -c 3000000 /dev/zero > /tmp/large")
    reading = machine.files.read(b"/tmp/large")
    taken = len(await anext(reading))
    assert (await shell(machine, "echo alive")).output == b"alive\n"
    taken += sum([len(piece) async for piece in reading])
    assert taken == 3_000_000


async def test_a_command_that_takes_no_input_stalls_no_other(machine: Machine) -> None:
    deaf = await machine.start(Command(argv=[b"sleep", b"600"], wants_input=True))
    writing = asyncio.create_task(deaf.write(bytes(4 << 20)))
    try:
        assert (await shell(machine, "echo alive")).output == b"alive\n"
        assert not writing.done()
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await deaf.forget()


async def test_two_hundred_megabytes_of_output_need_bounded_memory(machine: Machine) -> None:
    size = 200 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = 0
    async with running(machine, b"head", b"-c", b"%d" % size, b"/dev/zero") as process:
        while (chunk := await process.read()) is not None:
            count += len(chunk.data)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert count == size
    assert grown_kib < 32 << 10


async def test_much_input_arrives_whole(machine: Machine) -> None:
    data = bytes(range(256)) * 40_000
    done = await machine.run(Command(argv=[b"sha256sum"]), input=data)
    assert done.output.split()[0].decode() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("address", [b"127.0.0.1", b"0.0.0.0", b"::1"])
async def test_a_server_in_the_sandbox_can_be_talked_to(machine: Machine, address: bytes) -> None:
    async with echo_server(machine, address) as port:
        connection = await machine.dial(port)
        data = bytes(range(256)) * 4000
        writing = asyncio.create_task(connection.write(data))
        seen = b""
        while len(seen) < len(data):
            seen += await connection.read()
        await writing
        await connection.close_write()
        assert seen == data
        assert await connection.read() == b"bye"
        assert await connection.read() == b""
        await connection.close()


async def test_connections_at_once_do_not_mix(machine: Machine) -> None:
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(echo_server(machine)) for _ in range(2)]
        one, two = [await machine.dial(port) for port in servers]
        await one.write(b"first")
        await two.write(b"second")
        assert (await two.read(), await one.read()) == (b"second", b"first")
        await one.close()
        await two.close()


async def test_a_port_where_nobody_listens_refuses(machine: Machine) -> None:
    with pytest.raises(GuestRefused) as refused:
        await machine.dial(9)
    assert refused.value.guest_code == "refused"


async def test_the_figures_of_a_machine_are_plausible(machine: Machine) -> None:
    stats = await machine.stats()
    assert 400 << 20 < stats.memory_total <= 512 << 20
    assert 0 < stats.memory_available < stats.memory_total
    assert 0 < stats.memory_user <= stats.memory_peak < stats.memory_total
    assert 7 << 30 < stats.disk_total <= 8 << 30
    assert 0 < stats.disk_free < stats.disk_total
    assert stats.inodes_free > 10_000
    assert stats.uptime_s > 0
    assert stats.cpu_s > 0


async def test_the_figures_follow_what_happens(machine: Machine) -> None:
    async with asyncio.timeout(120):
        while (before := await machine.stats()).processes:
            pass  # what tests before this one ended is still on its way out
    async with running(machine, b"sleep", b"600"):
        await shell(machine, "head -c 20000000 /dev/zero > /workspace/ballast; sync")
        after = await machine.stats()
    assert after.processes == 1
    assert before.disk_free - after.disk_free > 15_000_000


async def test_a_paused_machine_goes_on_where_it_was(machine: Machine) -> None:
    script = b"i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"
    async with running(machine, b"/bin/sh", b"-c", script) as process:
        await process.read()
        await machine.pause()
        await machine.resume()
        seen = b""
        while seen.count(b"\n") < 20:
            chunk = await process.read()
            assert chunk is not None
            seen += chunk.data
        numbers = [int(line) for line in seen.split()[:-1]]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_requests_made_while_a_machine_is_paused_are_answered_when_it_goes_on(
    machine: Machine,
) -> None:
    await machine.pause()
    asking = asyncio.create_task(shell(machine, "echo late"))
    await asyncio.sleep(0.2)
    assert not asking.done()
    await machine.resume()
    assert (await asking).output == b"late\n"
