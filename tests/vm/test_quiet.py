"""What a machine does unasked: little, since its processor may be emulated and its host shared."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator

import pytest
from tests.conftest import Run
from tests.vm.conftest import Open

from crucible.sandbox.backend import Machine

pytestmark = pytest.mark.vm

PIECE = os.urandom(1 << 20)
PIECES = 64
# Go's own watcher alone makes some 4,000 a second when nobody calms it.
MOST_PER_SECOND = 2000


def test_a_copy_is_not_interrupted_all_the_time(open_sandbox: Open, run: Run) -> None:
    machine = open_sandbox().machine
    interrupts, seconds = run(_while_copying(machine))
    assert interrupts / seconds < MOST_PER_SECOND


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
