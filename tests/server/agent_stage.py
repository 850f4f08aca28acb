"""Doors to an engine of the agent whose model is played by the test; its sandbox is a directory of this host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agent.scenes import Line, Scene, scene
from tests.server.conftest import Server

from crucible import assemble
from crucible.agent.engine import Engine
from crucible.agent.judging import PolicyJudge
from crucible.agent.models.users import UserModels
from crucible.agent.recording import LedgerRecorder
from crucible.books import Books, open_books
from crucible.config import Config
from crucible.conversations.conversations import Conversations
from crucible.ledger.ledger import Ledger
from crucible.sandbox.manager import Manager
from crucible.sandbox.service.dispatch import Service
from crucible.server.books import LazyBooks
from crucible.server.engines import LazyEngine
from crucible.server.journal import Journal
from crucible.server.listening import Address
from crucible.server.serving import http_doors
from crucible.server.store import Store
from crucible_client import AsyncClient


@dataclass(slots=True, kw_only=True)
class Stage:
    server: Server
    scene: Scene
    ledger: Ledger
    books: Books

    def client(self) -> AsyncClient:
        return AsyncClient(self.server.url, token=self.server.token())

    def play(self, *lines: Line) -> None:
        self.scene.model.lines.extend(lines)


@asynccontextmanager
async def agent_staging(
    home: Path,
    models: Callable[[Books], UserModels] | None = None,
    *,
    has_accounts: bool = False,
    manager: Manager | None = None,
) -> AsyncIterator[Stage]:
    """`models` makes others than the one that the test plays; `manager` has other sandboxes than none."""
    manager = manager or assemble.manager(Config(home=home / "state", pulls_images=False))
    books = open_books(home, manager.database.now())
    ledger = books.ledger
    parts: dict[str, Any] = {
        "judge": PolicyJudge(),
        "recorder": LedgerRecorder(ledger),
        "runs": ledger,
        "chronicler": Conversations(books.database, uploads=home / "uploads"),
    }
    if models is not None:
        parts["models"] = own = models(books)
        parts["closing"] = (own.close,)
    async with scene(home, **parts) as found:

        async def make() -> Engine:
            return found.engine

        service = Service(manager)
        store = Store(manager.config.home)
        doors = http_doors(
            service,
            store,
            Address(port=0, requests_per_second=0, has_accounts=has_accounts),
            journal=Journal(None),
            engine=LazyEngine(make),
            books=LazyBooks(lambda: books),
        )
        await doors.open()
        try:
            # Also where no route asks for them, so that they are closed with the doors.
            await doors.domain.books.get()
            yield Stage(server=Server(doors), scene=found, ledger=ledger, books=books)
        finally:
            await doors.drain()
            for held in list(manager.held.values()):
                await manager.remove(held.record.name, force=True)
            await service.close()
            await manager.database.close()
            manager.records.close()
            store.close()
