"""A sandbox at work, step by step, each with the time it took and the isolation that was really used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crucible.config import Config
from crucible.errors import SandboxError
from crucible.images.report import Report, silent

if TYPE_CHECKING:
    from crucible.sandbox.holding import Held

_PROGRAM = b"""\
import os, platform, sys
text = f"Python {platform.python_version()} on Linux {platform.release()}, as uid {os.getuid()}"
open("artifact.txt", "w").write(text + "\\n")
print("hello from inside")
"""
_TIMEOUT_S = 60.0
_MAX_ARTIFACT_BYTES = 4096
NEXT = (
    ("crucible run -- python3 -c 'print(6 * 7)'", "one command in a sandbox of its own"),
    ("crucible create demo --dir .", "a sandbox that stays, with a copy of this directory"),
    ("crucible exec -it demo bash", "a shell in it"),
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    name: str
    finding: str
    seconds: float


@dataclass(slots=True, kw_only=True)
class Demo:
    backend: str = ""
    isolation: str = ""
    steps: list[Step] = field(default_factory=list)


class _Teller:
    """Times steps and says each when it is done."""

    def __init__(self, say: Say) -> None:
        self.demo = Demo()
        self.finding = ""
        self._say = say

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        self.demo.steps.append(Step(name=name, finding=self.finding, seconds=seconds))
        self._say(f"  {name:<9} {self.finding:<60} {seconds * 1000:8.0f} ms")


async def run_demo(config: Config, say: Say, *, report: Report = silent) -> Demo:
    """Opens a temporary sandbox, works in it and leaves nothing. Raises what stands in the way."""
    from crucible import assemble
    from crucible.sandbox.placing import place_here
    from crucible.sandbox.spec import SandboxSpec

    teller = _Teller(say)
    manager = assemble.manager(config, report)
    try:
        with teller.step("probe"):
            placed = await place_here(manager.machines, SandboxSpec())
            backend, isolation = placed.backend, placed.isolation
            teller.demo.backend, teller.demo.isolation = backend.name, isolation
            teller.finding = f"{backend.name} works here; isolation {isolation}"
        async with AsyncExitStack() as sandbox:
            with teller.step("create"):
                opening = manager.open(SandboxSpec(backend=backend.name))
                held = await sandbox.enter_async_context(opening)
                memory_mib = held.record.spec.memory_mib
                teller.finding = f"a machine of {memory_mib} MiB with its own kernel"
            await _work(held, teller)
            with teller.step("clean up"):
                await sandbox.aclose()
                is_gone = not held.record.directory.exists()
                teller.finding = (
                    f"the machine and its disk are {'gone' if is_gone else 'still here'}"
                )
    finally:
        manager.records.close()
    _say_next(say)
    return teller.demo


async def _work(held: Held, teller: _Teller) -> None:
    from crucible.sandbox.session import Command

    machine, image = held.machine, held.image
    workdir = image.workdir.encode()
    with teller.step("write"):
        path = workdir + b"/hello.py"
        await machine.files.write(path, _PROGRAM, owner=image.user)
        teller.finding = f"{path.decode()}, {len(_PROGRAM)} bytes"
    with teller.step("execute"):
        command = Command(
            argv=(b"python3", b"hello.py"), workdir=workdir, user=image.user, timeout_s=_TIMEOUT_S
        )
        done = await machine.run(command)
        teller.finding = f"exit status {done.exit.status}, {_one_line(done.output)}"
    if done.exit.status != 0:
        raise SandboxError(f"The demo's program failed: {_one_line(done.errors)}")
    with teller.step("read back"):
        artifact = await _read(held, workdir + b"/artifact.txt")
        teller.finding = _one_line(artifact)


async def _read(held: Held, path: bytes) -> bytes:
    data = b""
    async for piece in held.machine.files.read(path, length=_MAX_ARTIFACT_BYTES):
        data += piece
    return data


def _one_line(data: bytes) -> str:
    """The first line, harmless for a terminal: it comes from a guest."""
    from crucible.sandbox.workspace.names import shown

    lines = data[:200].splitlines()
    return shown(lines[0]) if lines else "no output"


def _say_next(say: Say) -> None:
    say("")
    say("Try next:")
    for command, meaning in NEXT:
        say(f"  {command:<45} {meaning}")
