"""The accounts of this user for commands that look at them, straight from the database."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from crucible.accounts.budgets import Budgets, Standing
from crucible.accounts.scopes import sandbox_scope
from crucible.accounts.users import Users
from crucible.config import load_config
from crucible.sandbox.metering import prepare_limits
from crucible.sandbox.spec import SandboxSpec
from crucible.store.database import Database
from crucible.store.lazy import own_database

T = TypeVar("T")


@contextmanager
def opened() -> Iterator[OpenAccounts]:
    database = own_database(load_config().home)
    try:
        yield OpenAccounts(database)
    finally:
        database.close()


class OpenAccounts:
    def __init__(self, database: Database) -> None:
        self.budgets = Budgets(database)
        self.users = Users(database)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    async def of_sandbox(self, id: str, spec: SandboxSpec) -> list[Standing]:
        """How its own budget stands, even if nothing was ever spent."""
        scope = sandbox_scope(id)
        await prepare_limits(self.budgets, scope, spec)
        return await self.budgets.remaining([scope])
