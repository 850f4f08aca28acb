"""Users, as far as budgets need them: who there is, and which plan they have."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import IntegrityError

from crucible.accounts.plans import plan_limits
from crucible.accounts.scopes import user_scope
from crucible.errors import BadSetting, UserMissing
from crucible.store.database import Database
from crucible.store.tables.accounts import users

MOST_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """`plan` is "" for one who has none."""

    id: str
    name: str
    plan: str
    created_at: float


class Users:
    """All verbs that name a user raise UserMissing; those that name a plan, PlanMissing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, id: str, *, name: str = "", plan: str = "") -> User:
        """Raises BadSetting for an id or a name that is taken or is none."""
        user_scope(id)
        if plan:
            plan_limits(plan)
        user = User(id=id, name=(name or id)[:MOST_NAME], plan=plan, created_at=time.time())

        def work(connection: Connection) -> None:
            row = {"id": id, "name": user.name, "plan": plan, "created_at": user.created_at}
            connection.execute(users.insert(), row)

        try:
            await self._database.run(work)
        except IntegrityError:
            raise BadSetting(f"There is a user {id!r}, or one of that name, already") from None
        return user

    async def find(self, id: str) -> User:
        def work(connection: Connection) -> User:
            row = connection.execute(select(users).where(users.c.id == id)).mappings().first()
            if row is None:
                raise UserMissing(id)
            return User(**row)

        return await self._database.read(work)

    async def all(self) -> list[User]:
        def work(connection: Connection) -> list[User]:
            rows = connection.execute(select(users).order_by(users.c.id)).mappings()
            return [User(**row) for row in rows]

        return await self._database.read(work)

    async def give_plan(self, id: str, plan: str) -> None:
        """A plan of "" takes it away."""
        if plan:
            plan_limits(plan)

        def work(connection: Connection) -> None:
            changed = connection.execute(
                update(users).where(users.c.id == id).values(plan=plan)
            ).rowcount
            if not changed:
                raise UserMissing(id)

        await self._database.run(work)
