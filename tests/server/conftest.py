"""The doors as they are served: real sockets, a real manager, callers with and without tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.conftest import Run

from crucible import assemble
from crucible.config import Config
from crucible.sandbox.manager import Manager
from crucible.sandbox.service.dispatch import Service
from crucible.server.journal import Journal
from crucible.server.listening import Address, HttpDoors
from crucible.server.serving import http_doors
from crucible.server.store import Store
from crucible.server.tokens import Scope, create_token

if TYPE_CHECKING:
    from tests.server.agent_stage import Stage
    from tests.server.scripted import Staged


class Server:
    """Doors that are open, and tokens for them."""

    def __init__(self, doors: HttpDoors) -> None:
        self.doors = doors
        self.domain = doors.domain
        self.url = doors.url
        self.store = doors.domain.store
        self.home = doors.domain.manager.config.home
        self.created = ""

    def token(self, scope: Scope = Scope.ADMIN, **options: float | str) -> str:
        return create_token(self.store, "test", scope=scope, **options)[1]  # type: ignore[arg-type]

    @asynccontextmanager
    async def client(
        self, scope: Scope = Scope.ADMIN, **headers: str
    ) -> AsyncIterator[httpx.AsyncClient]:
        """A caller over TCP with a token of this scope."""
        sent = {"Authorization": f"Bearer {self.token(scope)}", **headers}
        async with httpx.AsyncClient(base_url=self.url, headers=sent, timeout=120) as client:
            yield client

    @asynccontextmanager
    async def local(self) -> AsyncIterator[httpx.AsyncClient]:
        """A caller over our own socket."""
        transport = httpx.AsyncHTTPTransport(uds=str(self.home / "http.sock"))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://crucible", timeout=120
        ) as client:
            yield client


async def until(is_so: Callable[[], bool]) -> None:
    """Waits for what comes about by itself."""
    async with asyncio.timeout(120):
        while not is_so():  # noqa: ASYNC110 - nobody could wake us
            await asyncio.sleep(0.02)


@asynccontextmanager
async def serving(
    home: Path, *, journal: Journal | None = None, **options: object
) -> AsyncIterator[Server]:
    manager = assemble.manager(Config(home=home, pulls_images=False))
    async with opened(manager, journal=journal, **options) as doors:
        yield Server(doors)


@asynccontextmanager
async def opened(
    manager: Manager, *, journal: Journal | None = None, **options: object
) -> AsyncIterator[HttpDoors]:
    service = Service(manager)
    store = Store(manager.config.home)
    address = Address(port=0, **{"requests_per_second": 0, **options})  # type: ignore[arg-type]
    doors = http_doors(service, store, address, journal=journal or Journal(None))
    await doors.open()
    try:
        yield doors
    finally:
        await doors.drain()
        for held in list(manager.held.values()):
            await manager.remove(held.record.name, force=True)
        await service.close()
        await manager.database.close()
        manager.records.close()
        store.close()


@pytest.fixture
def bare(run: Run, tmp_path: Path) -> Iterator[Server]:
    """Doors to a home with nothing in it: no image, no machine."""
    context = serving(tmp_path / "home")
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


@pytest.fixture
def staged(run: Run, tmp_path: Path) -> Iterator[Staged]:
    """Doors to sandboxes whose commands are played by the test."""
    from tests.server.scripted import staging

    context = staging(tmp_path / "home")
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


@pytest.fixture
def stage(run: Run, tmp_path: Path) -> Iterator[Stage]:
    """Doors to an engine whose model is played by the test."""
    from tests.server.agent_stage import agent_staging

    context = agent_staging(tmp_path)
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def server(run: Run, module_home: Path) -> Iterator[Server]:
    context = serving(module_home)
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def box(run: Run, server: Server) -> str:
    """One running sandbox for all tests of a module."""

    async def create() -> None:
        async with server.client() as client:
            answer = await client.post(
                "/api/v1/sandboxes", json={"name": "box", "settings": {"network": "off"}}
            )
            assert answer.status_code == 201, answer.text

    run(create())
    return "box"
