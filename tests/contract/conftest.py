"""One running machine of each backend that works here, shared by the tests of a module."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from tests.backends.ssh_server import end_shared, ssh_server
from tests.conftest import PREPARED, Run, own_home
from tests.contract.gaps import (
    REMOTE_ALSO,
    REMOTE_GAPS,
    REMOTE_LEFT_OUT,
    WORKER_LEFT_OUT,
    WORKER_WITH_ALL,
)
from tests.server.conftest import serving

from crucible import assemble
from crucible.backends.e2b.backend import E2BBackend
from crucible.backends.worker.address import by_ssh
from crucible.backends.worker.backend import NAME as WORKER
from crucible.backends.worker.backend import WorkerBackend
from crucible.config import Config
from crucible.sandbox.backend import Machine
from crucible.sandbox.machines import REMOTE, Machines
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import open_records
from crucible.sandbox.spec import SandboxSpec


def _names() -> list[str]:
    async def plausible() -> list[str]:
        backends = assemble.backends(Config(home=PREPARED))
        return [backend.name for backend in backends if await backend.is_worth_trying()]

    return [*asyncio.run(plausible()), WORKER, REMOTE]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a backend elsewhere cannot do is not tried with it, and what only takes long is not done again."""
    seen = set()
    for item in list(items):
        if item.path.parent != Path(__file__).parent:
            continue
        test, _, values = item.name.partition("[")
        if WORKER in values:
            is_further = (test, WORKER) in seen and test not in WORKER_WITH_ALL
            seen.add((test, WORKER))
            if is_further or test in WORKER_LEFT_OUT:
                items.remove(item)
        if REMOTE not in values:
            continue
        is_further = (test, REMOTE) in seen and item.name not in REMOTE_ALSO
        seen.add((test, REMOTE))
        if is_further or test in REMOTE_GAPS or test in REMOTE_LEFT_OUT:
            items.remove(item)


@pytest.fixture(scope="module", params=_names())
def machine(
    request: pytest.FixtureRequest,
    module_home: Path,
    prepared_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    run: Run,
) -> Iterator[Machine]:
    stack = AsyncExitStack()
    is_remote = request.param == REMOTE

    async def open_machine() -> Machine:
        if is_remote:
            home = tmp_path_factory.mktemp("elsewhere")
            return await stack.enter_async_context(remote_machine(module_home, home))
        manager = stack.enter_context(own_manager(request.param, module_home, prepared_home))
        backend = manager.machines.backend(request.param)
        if (missing := await backend.probe()) is not None:
            why = f"{backend.name} does not work here: {missing.what}"
            # These work wherever the tests can run at all: without them nothing would be tested.
            assert backend.name not in ("qemu-tcg", WORKER), why
            pytest.skip(why)
        held = await stack.enter_async_context(manager.open(SandboxSpec(backend=backend.name)))
        return held.machine

    yield run(open_machine())
    run(stack.aclose())


@contextmanager
def own_manager(backend: str, home: Path, prepared: Path) -> Iterator[Manager]:
    """A worker is another home on this machine, with an owner of its own behind a real sshd."""
    if backend != WORKER:
        yield assemble.manager(Config(home=home))
        return
    with own_home(prepared) as there, ssh_server({"CRUCIBLE_HOME": str(there)}) as server:
        worker = WorkerBackend(worker=by_ssh(server.host(), home), home=home)
        records = open_records(home)
        yield Manager(config=Config(home=home), records=records, machines=Machines([worker]))
        records.close()
        end_shared(home)


@asynccontextmanager
async def remote_machine(served_home: Path, home: Path) -> AsyncIterator[Machine]:
    """A sandbox that the official SDK made over real HTTP, at a server of ours that speaks E2B's wire."""
    async with serving(served_home) as server:
        key = "e2b_" + server.token().encode().hex()
        backend = E2BBackend(
            {
                "E2B_API_URL": f"{server.url}/e2b",
                "E2B_SANDBOX_URL": f"{server.url}/e2b",
                "E2B_API_KEY": key,
            }
        )
        manager = Manager(
            config=Config(home=home),
            records=open_records(home),
            machines=Machines([], remote=lambda: backend, provider="remote_e2b"),
        )
        try:
            async with manager.open(SandboxSpec(network="off")) as held:
                yield held.machine
            assert server.domain.manager.records.sandboxes() == []
        finally:
            manager.records.close()
