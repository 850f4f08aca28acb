"""A guest kernel that panics while it runs. Its kernel is told to do so when memory runs out, which a command can do,
and when an interrupt comes that nobody expects, which the host can do while nobody holds the machine.

The words that tell it are in the template these machines start from, and nowhere else.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CommandLine, Run, kill_owner
from tests.e2e.leftovers import leftovers

from crucible import assemble
from crucible.backends.qemu import command, vmm
from crucible.config import Config
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

# As little as brings the end soon; with less than that, a kernel looks for memory for very long first.
MEMORY_MIB = 256
PANICS = "sysctl.vm.panic_on_oom=2 sysctl.kernel.panic_on_unrecovered_nmi=1 unknown_nmi_panic"
# Taken by the kernel itself, in one go. A program that takes piece after piece is read again from its disk at every
# step when hardly any room is left, and a kernel looks on at that for minutes.
GREED = "mmap.mmap(-1, 1 << 30, flags=0xC022)  # private, anonymous, not reserved, filled at once"
HOG = ("python3", "-c", f"import mmap\nprint('began', flush=True)\n{GREED}")
# Where memory lacks first is the kernel's affair: in the first program, that ends, and the kernel panics of that.
REASON = re.compile(
    r"panicked: (Out of memory: compulsory panic_on_oom is enabled|Attempted to kill init! exitcode=0x\w+)"
)


@pytest.fixture(scope="module")
def crucible(module_home: Path, run: Run) -> CommandLine:
    async def make_template() -> None:
        async with assemble.manager(Config(home=module_home)).open(
            SandboxSpec(memory_mib=MEMORY_MIB)
        ):
            pass

    shutil.rmtree(module_home / "templates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_KERNEL_WORDS", f"{command._KERNEL_WORDS} {PANICS}")
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
    assert REASON.search(first)
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
    directory = Path(facts(crucible, box)["directory"])
    kill_owner(crucible.home)
    say_to_vmm(directory, "inject-nmi")
    while say_to_vmm(directory, "query-status").get("status") != "shutdown":
        time.sleep(0.1)
    assert crucible("exec", box, "true").returncode == 126
    found = facts(crucible, box)
    told = found["note"].removeprefix("the guest kernel panicked: ")
    console = crucible.ok("logs", box, "--console")
    assert (found["state"], told) == ("stopped", panic_in(console)), found["note"]


def panic_in(console: str) -> str:
    _, found, after = console.rpartition("Kernel panic - not syncing: ")
    assert found, console
    return after.splitlines()[0].strip()


def say_to_vmm(directory: Path, order: str) -> dict[str, Any]:
    """QEMU answers anybody while nobody else is there."""
    with vmm.connect_socket(directory, vmm.MONITOR_SOCKET) as sock, sock.makefile("rw") as lines:
        lines.readline()
        for word in ("qmp_capabilities", order):
            lines.write(json.dumps({"execute": word}) + "\n")
            lines.flush()
            answer: dict[str, Any] = json.loads(lines.readline())
            while "event" in answer:
                answer = json.loads(lines.readline())
        found: dict[str, Any] = answer["return"]
        return found
