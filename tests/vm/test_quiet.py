"""What a machine does unasked: little, since its processor may be emulated and its host shared."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator

import pytest
from tests.conftest import Run
from tests.vm.conftest import Open

from crucible.backends.qemu.machine import QemuMachine
from crucible.sandbox.backend import Machine
from crucible.sandbox.identity import new_identity

pytestmark = pytest.mark.vm

PIECE = os.urandom(1 << 20)
PIECES = 64
# Go's own watcher alone makes some 4,000 a second when nobody calms it.
MOST_PER_SECOND = 2000


def test_a_copy_is_not_interrupted_all_the_time(open_sandbox: Open, run: Run) -> None:
    machine = open_sandbox().machine
    interrupts, seconds = run(_while_copying(machine))
    assert interrupts / seconds < MOST_PER_SECOND


def test_becoming_somebody_else_writes_nothing_to_the_disk(open_sandbox: Open, run: Run) -> None:
    machine = open_sandbox().machine
    assert isinstance(machine, QemuMachine)
    before, after, shown = run(_while_renamed(machine, "a-name-of-some-length"))
    assert "a-name-of-some-length\n" in shown
    assert after == before


async def _while_renamed(machine: QemuMachine, name: str) -> tuple[int, int, str]:
    """Sectors of the disk that were written before and after, and what the files of names hold then."""
    await machine.guest.sync_disk()
    before = await _sectors_written(machine)
    await machine.guest.prepare(new_identity(name))
    shown = await _content(machine, b"/etc/hostname") + await _content(machine, b"/etc/hosts")
    await machine.guest.sync_disk()
    return before, await _sectors_written(machine), shown


async def _sectors_written(machine: Machine) -> int:
    table = await _content(machine, b"/proc/diskstats")
    (line,) = (line.split() for line in table.splitlines() if line.split()[2] == "vdb")
    return int(line[9])


async def _while_copying(machine: Machine) -> tuple[int, float]:
    """Timer interrupts while a file is written, and how long that was by the machine's own clock."""
    before, began = await _timer_interrupts(machine), await _uptime(machine)
    await machine.files.write(b"/workspace/copied", _pieces())
    return await _timer_interrupts(machine) - before, await _uptime(machine) - began


async def _pieces() -> AsyncIterator[bytes]:
    for _ in range(PIECES):
        yield PIECE


async def _timer_interrupts(machine: Machine) -> int:
    table = await _content(machine, b"/proc/interrupts")
    timers = [line for line in table.splitlines() if re.search(r"LOC:|arch_timer", line)]
    assert timers, table
    return sum(int(word) for line in timers for word in line.split()[1:] if word.isdigit())


async def _uptime(machine: Machine) -> float:
    return float((await _content(machine, b"/proc/uptime")).split()[0])


async def _content(machine: Machine, path: bytes) -> str:
    return b"".join([piece async for piece in machine.files.read(path)]).decode()
