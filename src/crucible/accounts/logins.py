"""Users who sign in: their names, roles, passwords, and who they are elsewhere."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Select, delete, func, select, text, update
from sqlalchemy.exc import IntegrityError

from crucible.accounts.passwords import Passwords
from crucible.accounts.plans import plan_limits
from crucible.errors import BadUserName, LastAdministrator, SignUpClosed, UserMissing, UserTaken
from crucible.store.database import Database
from crucible.store.tables.accounts import identities, logins, users, web_sessions

# It goes into headers, logs and terminals of others: nothing but these.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
# Whoever started the program: nobody signs in as that one.
OWN_USER: Final = "local"
_RESERVED: Final = frozenset((OWN_USER, "anybody", "root", "admin-of-this-machine"))


class Role(StrEnum):
    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """`plan` is "" for one who has none."""

    id: str
    name: str
    role: Role
    plan: str
    is_disabled: bool
    has_password: bool
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is None stays as it is."""

    role: Role | None = None
    plan: str | None = None
    is_disabled: bool | None = None


async def is_trusted(database: Database, user: str) -> bool:
    """Whether this user may do what the program's own may: whoever started it, and administrators."""
    if user == OWN_USER:
        return True
    query = select(logins.c.user_id).where(
        logins.c.user_id == user,
        logins.c.role == str(Role.ADMIN),
        logins.c.is_disabled.is_(False),
    )
    return await database.read(lambda connection: connection.execute(query).first() is not None)


class Logins:
    """All verbs that name a user by id raise UserMissing; those that name a plan, PlanMissing."""

    def __init__(self, database: Database, passwords: Passwords) -> None:
        self._database = database
        self._passwords = passwords

    async def has_any(self) -> bool:
        return bool(await self._database.read(_count))

    async def add(
        self, name: str, password: str | None, *, role: Role = Role.USER, plan: str = ""
    ) -> Account:
        """Raises BadUserName, UserTaken, BadPassword."""
        name, kept = check_user_name(name), await self._hashed(password)
        if plan:
            plan_limits(plan)
        return await self._insert(lambda connection: _add(connection, name, kept, role, plan))

    async def add_first(self, name: str, password: str) -> Account:
        """An administrator. Raises SignUpClosed if there is somebody already."""
        name, kept = check_user_name(name), await self._hashed(password)

        def work(connection: Connection) -> Account:
            _take_turns(connection)
            if _count(connection):
                raise SignUpClosed
            return _add(connection, name, kept, Role.ADMIN, "")

        return await self._insert(work)

    async def known(self, name: str, password: str) -> Account | None:
        """Whose name and password these are. As much work for a name that nobody has, or who may not come in."""
        wanted = name.strip().lower()

        def work(connection: Connection) -> tuple[Account, str] | None:
            row = connection.execute(_ALL.where(users.c.name == wanted)).mappings().first()
            return None if row is None else (_account(row), str(row["password"]))

        is_name = _NAME.fullmatch(wanted) is not None
        found = await self._database.read(work) if is_name else None
        kept = "" if found is None or found[0].is_disabled else found[1]
        if not await self._passwords.matches(password, kept) or found is None:
            return None
        if self._passwords.is_outdated(kept):
            await self._keep(found[0].id, await self._passwords.hash(password))
        return found[0]

    async def matches(self, id: str, password: str) -> bool:
        return await self.known((await self.find(id)).name, password) is not None

    async def set_password(self, id: str, password: str, *, keeps_session: str = "") -> None:
        """Ends all sessions of the user but the one that is to be kept. Raises BadPassword."""
        await self._keep(id, await self._passwords.hash(password), keeps_session=keeps_session)

    async def change(self, id: str, changes: Changes) -> Account:
        """Raises LastAdministrator for what would leave nobody to administer."""
        if changes.plan:
            plan_limits(changes.plan)

        def work(connection: Connection) -> Account:
            _take_turns(connection)
            before = _find(connection, id)
            if changes.role is not None:
                _set(connection, id, role=str(changes.role))
            if changes.is_disabled is not None:
                _set(connection, id, is_disabled=changes.is_disabled)
            if changes.is_disabled:
                connection.execute(delete(web_sessions).where(web_sessions.c.user_id == id))
            if changes.plan is not None:
                connection.execute(update(users).where(users.c.id == id).values(plan=changes.plan))
            _check_administered(connection, before)
            return _find(connection, id)

        return await self._database.run(work)

    async def remove(self, id: str) -> None:
        """What the user spent and did stays where it is written. Raises LastAdministrator."""

        def work(connection: Connection) -> None:
            _take_turns(connection)
            before = _find(connection, id)
            for table in (web_sessions, identities, logins):
                connection.execute(delete(table).where(table.c.user_id == id))
            connection.execute(delete(users).where(users.c.id == id))
            _check_administered(connection, before)

        await self._database.run(work)

    async def find(self, id: str) -> Account:
        return await self._database.read(lambda connection: _find(connection, id))

    async def enabled(self, ids: Collection[str]) -> dict[str, Account]:
        """Of these users, those who may come in."""

        def work(connection: Connection) -> dict[str, Account]:
            query = _ALL.where(users.c.id.in_(ids), logins.c.is_disabled.is_(False))
            return {row["id"]: _account(row) for row in connection.execute(query).mappings()}

        return await self._database.read(work)

    async def find_by_name(self, name: str) -> Account:
        """Raises UserMissing."""

        def work(connection: Connection) -> Account:
            query = _ALL.where(users.c.name == name.strip().lower())
            row = connection.execute(query).mappings().first()
            if row is None:
                raise UserMissing(name)
            return _account(row)

        return await self._database.read(work)

    async def all(self) -> list[Account]:
        def work(connection: Connection) -> list[Account]:
            return [_account(row) for row in connection.execute(_ALL).mappings()]

        return await self._database.read(work)

    async def find_identity(self, issuer: str, subject: str) -> Account | None:
        def work(connection: Connection) -> Account | None:
            id = connection.execute(
                select(identities.c.user_id).where(
                    identities.c.issuer == issuer, identities.c.subject == subject
                )
            ).scalar()
            return None if id is None else _find(connection, id)

        return await self._database.read(work)

    async def add_identity(self, issuer: str, subject: str, name: str, *, plan: str) -> Account:
        """A new user who comes from elsewhere, under that name or, if it is taken, one like it."""
        wanted = name_like(name)

        def work(connection: Connection) -> Account:
            _take_turns(connection)
            taken = set(connection.execute(select(users.c.name)).scalars())
            free = wanted
            while free in taken or free in _RESERVED:
                free = f"{wanted[:50]}-{secrets.token_hex(3)}"
            account = _add(connection, free, "", Role.USER, plan)
            row = {"issuer": issuer, "subject": subject, "user_id": account.id}
            connection.execute(identities.insert(), row)
            return account

        return await self._insert(work)

    async def _hashed(self, password: str | None) -> str:
        return "" if password is None else await self._passwords.hash(password)

    async def _insert(self, work: Any) -> Account:
        try:
            account: Account = await self._database.run(work)
        except IntegrityError:
            raise UserTaken from None
        return account

    async def _keep(self, id: str, kept: str, *, keeps_session: str | None = None) -> None:
        def work(connection: Connection) -> None:
            _find(connection, id)
            _set(connection, id, password=kept)
            if keeps_session is not None:
                connection.execute(
                    delete(web_sessions).where(
                        web_sessions.c.user_id == id, web_sessions.c.id != keeps_session
                    )
                )

        await self._database.run(work)


def check_user_name(name: str) -> str:
    """As it is kept: capital letters make no other user. Raises BadUserName."""
    wanted = name.strip().lower()
    if not _NAME.fullmatch(wanted) or wanted in _RESERVED:
        raise BadUserName(name)
    return wanted


def name_like(name: str) -> str:
    """One that passes, as close as can be to what somebody elsewhere is called."""
    kept = re.sub(r"[^a-z0-9._@+-]", "-", name.lower())[:60].lstrip("._@+-")
    return kept if _NAME.fullmatch(kept) else "user"


_ALL: Select[Any] = (
    select(users, logins.c.password, logins.c.role, logins.c.is_disabled)
    .join(logins, logins.c.user_id == users.c.id)
    .order_by(users.c.created_at, users.c.id)
)


def _take_turns(connection: Connection) -> None:
    """SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE logins IN EXCLUSIVE MODE"))


def _count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(logins)).scalar_one())


def _add(connection: Connection, name: str, kept: str, role: Role, plan: str) -> Account:
    account = Account(
        id=secrets.token_hex(8),
        name=name,
        role=role,
        plan=plan,
        is_disabled=False,
        has_password=bool(kept),
        created_at=time.time(),
    )
    row = {"id": account.id, "name": name, "plan": plan, "created_at": account.created_at}
    connection.execute(users.insert(), row)
    login = {"user_id": account.id, "password": kept, "role": str(role), "is_disabled": False}
    connection.execute(logins.insert(), login)
    return account


def _find(connection: Connection, id: str) -> Account:
    row = connection.execute(_ALL.where(users.c.id == id)).mappings().first()
    if row is None:
        raise UserMissing(id)
    return _account(row)


def _set(connection: Connection, id: str, **values: Any) -> None:
    connection.execute(update(logins).where(logins.c.user_id == id).values(**values))


def _check_administered(connection: Connection, before: Account) -> None:
    if before.role is not Role.ADMIN or before.is_disabled:
        return
    query = select(func.count()).select_from(logins)
    found = connection.execute(
        query.where(logins.c.role == str(Role.ADMIN), logins.c.is_disabled.is_(False))
    ).scalar_one()
    if not found:
        raise LastAdministrator


def _account(row: Any) -> Account:
    return Account(
        id=row["id"],
        name=row["name"],
        role=Role(row["role"]),
        plan=row["plan"],
        is_disabled=bool(row["is_disabled"]),
        has_password=bool(row["password"]),
        created_at=row["created_at"],
    )
