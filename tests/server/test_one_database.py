"""All of a program work on one database, which is opened once, by who first needs it, and closed once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Run

from crucible import assemble
from crucible.config import Config
from crucible.errors import EngineClosed
from crucible.sandbox.service.dispatch import Service
from crucible.server.journal import Journal
from crucible.server.serving import http_doors
from crucible.server.store import Store
from crucible.store import lazy
from crucible.store.database import Database


class Watched(Database):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


def test_people_books_and_meters_share_a_database_that_is_opened_and_closed_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Watched] = []

    def open_one(home: Path) -> Database:
        opened.append(Watched(f"sqlite:///{tmp_path / 'crucible.db'}"))
        return opened[-1]

    async def use() -> None:
        manager = assemble.manager(Config(home=tmp_path / "state", pulls_images=False))
        service, store = Service(manager), Store(manager.config.home)
        doors = http_doors(service, store, None, journal=Journal(None))
        await doors.open()
        assert opened == [], "nobody has asked for anything in it"
        domain = doors.domain
        people, books = await asyncio.gather(domain.people.get(), domain.books.get())
        assert manager.accounts is not None
        meters = await asyncio.to_thread(manager.accounts)
        await people.logins.add("ada", "a password of some length")
        assert [books.database] == opened == [meters.database]
        (ada,) = await people.logins.all()
        assert (await books.users.find(ada.id)).id == ada.id
        await doors.drain()
        assert [one.closed for one in opened] == [0], "a sandbox may still be charged"
        await service.close()
        await manager.database.close()
        await manager.database.close()
        assert [one.closed for one in opened] == [1]
        with pytest.raises(EngineClosed):
            manager.database.now()
        manager.records.close()
        store.close()

    monkeypatch.setattr(lazy, "own_database", open_one)
    run(use())


def test_signing_in_loads_neither_the_engine_nor_what_it_works_with(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from crucible.server.access import Mode
from crucible.server.people import People
from crucible.store.lazy import lazy_database

async def sign_in():
    database = lazy_database(Path(sys.argv[1]))
    people = People(database)
    assert not any(name.startswith("sqlalchemy") for name in sys.modules)
    logins = (await people.get()).logins
    await logins.add("ada", "a password of some length")
    assert await logins.known("ada", "a password of some length")
    assert await people.caller(Mode.ACCOUNTS, "no such cookie") is None
    await people.close()
    await database.close()

asyncio.run(sign_in())
heavy = ("crucible.agent", "crucible.memory", "crucible.ledger", "pydantic_ai", "numpy", "mcp")
print([name for name in sys.modules if name.startswith(heavy)])
"""
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"
