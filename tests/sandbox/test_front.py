"""The process that takes runs for the daemon, as the owner starts it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crucible.sandbox.front import Front

pytestmark = pytest.mark.usefixtures("run")

# The last word is the lifeline: it is at its end when the daemon is.
PROGRAM = """
import os, sys
aside, place = sys.argv[1:3]
with open(aside, "w") as file:
    file.write(f"{os.getpid()} {os.getpgrp()} {os.getsid(0)}")
os.rename(aside, place)
os.read(int(sys.argv[-1]), 1)
"""


async def test_a_signal_to_the_daemons_terminal_does_not_reach_what_others_run(
    tmp_path: Path,
) -> None:
    place = tmp_path / "told"
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "aside"), str(place)]
    front = Front(tmp_path, words)
    await front.open()
    try:
        await until(place.exists)
    finally:
        await front.drain()
    pid, group, session = map(int, place.read_text().split())
    assert pid == group == session
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
