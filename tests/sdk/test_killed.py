"""Programs that end without a word: nothing of theirs is left but what they gave a name."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from tests.conftest import CommandLine, owner_pid

pytestmark = pytest.mark.vm

PROGRAM = """
import sys
from crucible import Sandbox
named = Sandbox.create(name="named", network="off")
temporary = Sandbox.create(network="off")
print(temporary.name, flush=True)
for line in sys.stdin:
    print(temporary.run(line).stdout, end="", flush=True)
"""


def test_a_killed_program_leaves_only_what_it_named(crucible: CommandLine) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=crucible.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert program.stdin is not None
        assert program.stdout is not None
        name = program.stdout.readline().decode().strip()
        assert {name, "named"} <= names(crucible)

        def says(word: str) -> bool:
            program.stdin.write(f"echo {word}\n".encode())  # type: ignore[union-attr]
            program.stdin.flush()  # type: ignore[union-attr]
            return program.stdout.readline().decode() == f"{word}\n"  # type: ignore[union-attr]

        assert says("before")
        owner = owner_pid(crucible.home)
        assert owner is not None
        kill_outright(owner)
        assert says("after"), "whoever holds the sandboxes next has this one, too"
    finally:
        program.kill()
        program.communicate()
    until(lambda: name not in names(crucible))
    assert names(crucible) == {"named"}
    crucible.ok("rm", "--force", "named")


def kill_outright(pid: int) -> None:
    """Returns when all that it had open is closed."""
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        waiting = select.poll()
        waiting.register(process, select.POLLIN)
        assert waiting.poll(200_000)
    finally:
        os.close(process)


def names(crucible: CommandLine) -> set[str]:
    return {line.split()[0] for line in crucible.ok("list").splitlines()[1:]}


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
