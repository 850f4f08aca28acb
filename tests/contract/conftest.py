"""One running machine of each backend that works here, shared by the tests of a module."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.conftest import PREPARED, Run

from crucible import assemble
from crucible.config import Config
from crucible.sandbox.backend import Machine
from crucible.sandbox.spec import SandboxSpec


def _names() -> list[str]:
    async def plausible() -> list[str]:
        backends = assemble.backends(Config(home=PREPARED))
        return [backend.name for backend in backends if await backend.is_worth_trying()]

    return asyncio.run(plausible())


@pytest.fixture(scope="module", params=_names())
def machine(request: pytest.FixtureRequest, module_home: Path, run: Run) -> Iterator[Machine]:
    stack = AsyncExitStack()

    async def open_machine() -> Machine:
        manager = assemble.manager(Config(home=module_home))
        backend = manager.machines.backend(request.param)
        if (missing := await backend.probe()) is not None:
            why = f"{backend.name} does not work here: {missing.what}"
            # Emulation works wherever the tests can run at all: without it nothing would be tested.
            assert backend.name != "qemu-tcg", why
            pytest.skip(why)
        held = await stack.enter_async_context(manager.open(SandboxSpec(backend=backend.name)))
        return held.machine

    yield run(open_machine())
    run(stack.aclose())
