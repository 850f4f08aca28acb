"""A guest kernel that panics while it runs. Its kernel is told to do so when memory runs out, which a command can do.

The word that tells it is in the template these machines start from, and nowhere else.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CommandLine, Run, owner_pid
from tests.e2e.leftovers import leftovers

from crucible import assemble
from crucible.backends.qemu import command, vmm
from crucible.client.connection import Owner
from crucible.config import Config
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

# As little as brings the end soon; with less than that, a kernel looks for memory for very long first.
MEMORY_MIB = 256
GREED = "held = []\nwhile True: held.append(bytearray(1 << 20))"
HOG = ("python3", "-c", f"print('began', flush=True)\n{GREED}")
WORDS = "panicked: Out of memory: compulsory panic_on_oom is enabled"


@pytest.fixture(scope="module")
def crucible(module_home: Path, run: Run) -> CommandLine:
    async def make_template() -> None:
        async with assemble.manager(Config(home=module_home)).open(
            SandboxSpec(memory_mib=MEMORY_MIB)
        ):
            pass

    shutil.rmtree(module_home / "templates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_KERNEL_WORDS", f"{command._KERNEL_WORDS} sysctl.vm.panic_on_oom=2")
        run(make_template())
    return CommandLine(module_home)


@pytest.fixture
def box(crucible: CommandLine) -> Iterator[str]:
    crucible.ok("create", "box", "--memory", f"{MEMORY_MIB}M", "--start")
    yield "box"
    crucible.ok("rm", "--force", "box")


def facts(crucible: CommandLine, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crucible.ok("inspect", "--json", name))
    return found


def test_a_run_whose_machine_panics_says_so_and_leaves_nothing(crucible: CommandLine) -> None:
    done = crucible("run", "--memory", f"{MEMORY_MIB}M", "--", *HOG)
    assert (done.returncode, done.stdout) == (125, b"began\n"), done.stderr
    first = done.stderr.decode().splitlines()[0]
    assert first.startswith("error: ")
    assert WORDS in first
    assert first.endswith("(guest-panicked)")
    assert leftovers(crucible.home) == []


def test_a_sandbox_that_panics_is_stopped_with_the_reason_and_its_console_is_kept(
    crucible: CommandLine, box: str
) -> None:
    done = crucible("exec", box, *HOG)
    assert (done.returncode, b"(guest-panicked)" in done.stderr) == (125, True), done.stderr
    assert b"crucible logs box --console" in done.stderr
    while facts(crucible, box)["state"] == "running":
        time.sleep(0.02)
    found = facts(crucible, box)
    # The very words that its kernel wrote last, and the same to everybody who asks.
    told = found["note"].removeprefix("the guest kernel panicked: ")
    console = crucible.ok("logs", box, "--console")
    assert (found["state"], told) == ("stopped", panic_in(console)), found["note"]
    assert found["note"] in done.stderr.decode()


def test_a_sandbox_that_panicked_while_nobody_held_it_is_told_the_same(
    crucible: CommandLine, box: str
) -> None:
    late = f"import time\ntime.sleep(2)\n{GREED}"
    crucible.ok("exec", "--detach", box, "python3", "-c", late)
    directory = Path(facts(crucible, box)["directory"])
    pid = owner_pid(crucible.home)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while (connection := Owner(crucible.home).connect_if_running()) is not None:
        connection.close()
    while state_of_vmm(directory) != "shutdown":
        time.sleep(0.1)
    assert crucible("exec", box, "true").returncode == 126
    found = facts(crucible, box)
    assert (found["state"], WORDS in found["note"]) == ("stopped", True), found["note"]
    assert "Kernel panic - not syncing" in crucible.ok("logs", box, "--console")


def panic_in(console: str) -> str:
    _, found, after = console.rpartition("Kernel panic - not syncing: ")
    assert found, console
    return after.splitlines()[0].strip()


def state_of_vmm(directory: Path) -> str:
    """As QEMU tells anybody who asks while nobody else does."""
    with vmm.connect_socket(directory, vmm.MONITOR_SOCKET) as sock, sock.makefile("rw") as lines:
        lines.readline()
        for order in ("qmp_capabilities", "query-status"):
            lines.write(json.dumps({"execute": order}) + "\n")
            lines.flush()
            answer = json.loads(lines.readline())
        return str(answer.get("return", {}).get("status"))
