"""Machines that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest
from tests.conftest import Run

from crucible import assemble
from crucible.config import Config
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.session import Command, Completed
from crucible.sandbox.spec import SandboxSpec


class Open(Protocol):
    """Opens a temporary sandbox that stays until the module's tests are over."""

    def __call__(self, spec: SandboxSpec = ..., /) -> Held: ...


@pytest.fixture(scope="module")
def manager(module_home: Path, run: Run) -> Manager:
    async def make() -> Manager:
        return assemble.manager(Config(home=module_home))

    return run(make())


@pytest.fixture(scope="module")
def open_sandbox(manager: Manager, run: Run) -> Iterator[Open]:
    stack = AsyncExitStack()

    def open_one(spec: SandboxSpec = SandboxSpec()) -> Held:  # noqa: B008 - it is frozen
        return run(stack.enter_async_context(manager.open(spec)))

    yield open_one
    run(stack.aclose())


@pytest.fixture(scope="module")
def box(open_sandbox: Open) -> Held:
    return open_sandbox()


async def shell(held: Held, script: str, *, user: str = "", timeout_s: float = 60) -> Completed:
    command = Command(argv=[b"/bin/sh", b"-c", script.encode()], user=user, timeout_s=timeout_s)
    return await held.machine.run(command)


async def python(held: Held, program: str, *, user: str = "", timeout_s: float = 60) -> Completed:
    command = Command(argv=[b"python3", b"-c", program.encode()], user=user, timeout_s=timeout_s)
    return await held.machine.run(command)
