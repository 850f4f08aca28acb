"""A sandbox that is held still: its time does not pass, neither inside nor for those who wait for it."""

from __future__ import annotations

import asyncio
import time

import pytest

from crucible.sandbox.guest import process as process_module
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Command

pytestmark = pytest.mark.vm

# More than a command takes to start, to be paused and to end on any host.
LIMIT_S = 120.0


async def test_its_own_clock_stands_still(box: Held) -> None:
    program = b"import time\nfor _ in range(2): input(); print(time.monotonic(), flush=True)"
    process = await box.machine.start(Command(argv=[b"python3", b"-c", program], wants_input=True))

    async def look() -> float:
        await process.write(b"\n")
        chunk = await process.read()
        assert chunk is not None
        return float(chunk.data)

    began = time.monotonic()
    first = await look()
    await box.machine.pause()
    paused = time.monotonic()
    await asyncio.sleep(2)
    stood_s = time.monotonic() - paused
    await box.machine.resume()
    passed_inside_s = await look() - first
    passed_here_s = time.monotonic() - began
    await process.forget()
    assert passed_inside_s < passed_here_s - 0.9 * stood_s


async def test_a_command_that_was_paused_longer_than_its_time_ends_with_its_own_status(
    box: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host waits a little longer than the guest does; here so little that the pause is longer still."""
    monkeypatch.setattr(process_module, "BACKSTOP_S", 0.5)
    script = b"echo began; read line; exit $line"
    command = Command(argv=[b"sh", b"-c", script], wants_input=True, timeout_s=LIMIT_S)
    process = await box.machine.start(command)
    chunk = await process.read()
    assert chunk is not None
    await box.machine.pause()
    reading = asyncio.create_task(process.read())
    await asyncio.sleep(0.1)
    loop = asyncio.get_running_loop()
    # By the clock of those who wait it is that late now: whatever was due by then happens in the next rounds.
    monkeypatch.setattr(loop, "time", lambda: time.monotonic() + 2 * LIMIT_S)
    await asyncio.sleep(0.1)
    assert not reading.done()
    await box.machine.resume()
    await process.write(b"7\n")
    assert await reading is None
    exit = await process.wait()
    await process.forget()
    assert (exit.status, exit.timed_out) == (7, False)
    assert exit.wall_s < LIMIT_S


async def test_a_command_that_was_paused_still_has_a_limit(box: Held) -> None:
    process = await box.machine.start(Command(argv=[b"sleep", b"600"], timeout_s=1.0))
    await box.machine.pause()
    await asyncio.sleep(0.5)
    await box.machine.resume()
    assert await process.read() is None
    exit = await process.wait()
    await process.forget()
    assert (exit.status, exit.timed_out) == (124, True)
