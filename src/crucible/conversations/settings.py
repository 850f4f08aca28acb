"""What a user has set: where sandboxes run, models, budget, egress, policy, skills, looks. Kept in the database."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from crucible.conversations.sealing import Seal
from crucible.errors import OwnServerMissing, OwnServerTaken, TooManyServers
from crucible.store.database import Database
from crucible.store.tables import settings as tables

Mode = Literal["", "auto", "local", "remote"]
Theme = Literal["system", "light", "dark"]
MOST_SERVERS = 32
_FOR_KEY = "key of a model"
_FOR_SERVER = "mcp server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where sandboxes run, and whether they may run elsewhere; "" and None are as this machine has it."""

    mode: Mode = ""
    strict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """By purpose, as `provider:name`; "" is as the machine has it."""

    agent: str = ""
    chat: str = ""
    memory: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What each new session may spend; None is without a limit."""

    tokens: int | None = None
    usd: float | None = None
    sandbox_s: float | None = None
    iterations: int | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    network: Literal["none", "full"] = "none"
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSettings:
    """`skills_off` are names of skills that new sessions do not have."""

    provider: Provider = field(default_factory=Provider)
    models: Models = field(default_factory=Models)
    budget: Budget = field(default_factory=Budget)
    egress: Egress = field(default_factory=Egress)
    policy: Rules = field(default_factory=Rules)
    skills_off: tuple[str, ...] = ()
    theme: Theme = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnServer:
    """An MCP server of a user. `by_admin` if whoever added it may reach what this machine reaches."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    where: Literal["sandbox", "host"] = "sandbox"
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0
    by_admin: bool = False


class Settings:
    """Of all users. What a user has never set is as the machine has it."""

    def __init__(self, database: Database, seal: Seal) -> None:
        self._database = database
        self._seal = seal

    async def get(self, user: str) -> UserSettings:
        return await self._database.read(lambda c: _read(c, user))

    async def change(self, user: str, changes: Mapping[str, Any]) -> UserSettings:
        """Sections that are named are changed in the fields that they name; all of it or nothing."""

        def work(connection: Connection) -> UserSettings:
            _begin(connection, user)
            changed = changed_by(_read(connection, user), changes)
            body = json.dumps(asdict(changed), ensure_ascii=False)
            row = update(tables.settings).where(tables.settings.c.user_id == user)
            connection.execute(row.values(body=body, updated_at=time.time()))
            return changed

        return await self._database.run(work)

    async def set_key(self, user: str, provider: str, key: str) -> None:
        sealed = self._seal.close(key, bound_to=(_FOR_KEY, user, provider))
        row = {"user_id": user, "provider": provider, "sealed": sealed, "set_at": time.time()}

        def work(connection: Connection) -> None:
            connection.execute(_key_of(user, provider))
            connection.execute(tables.keys.insert(), row)

        await self._database.run(work)

    async def drop_key(self, user: str, provider: str) -> bool:
        """Whether there was one. It is gone from the database's log, too."""
        found = await self._database.run(lambda c: c.execute(_key_of(user, provider)).rowcount)
        await self._database.scrub()
        return bool(found)

    async def has_keys(self, user: str) -> frozenset[str]:
        """The providers that this user has a key for."""
        chosen = select(tables.keys.c.provider).where(tables.keys.c.user_id == user)
        return frozenset(await self._database.read(lambda c: c.execute(chosen).scalars().all()))

    async def keys(self, user: str) -> Mapping[str, str]:
        """By provider, opened: for the models of this user's sessions and nobody else. Raises SecretUnreadable."""
        chosen = select(tables.keys).where(tables.keys.c.user_id == user)
        rows = await self._database.read(lambda c: c.execute(chosen).all())
        return {
            row.provider: self._seal.open(row.sealed, bound_to=(_FOR_KEY, user, row.provider))
            for row in rows
        }

    async def servers(self, user: str) -> Sequence[OwnServer]:
        """By name. Raises SecretUnreadable."""
        chosen = select(tables.servers).where(tables.servers.c.user_id == user)
        ordered = chosen.order_by(tables.servers.c.name)
        rows = await self._database.read(lambda c: c.execute(ordered).all())
        return [
            _server(self._seal.open(row.sealed, bound_to=(_FOR_SERVER, user, row.name)))
            for row in rows
        ]

    async def server(self, user: str, name: str) -> OwnServer:
        for one in await self.servers(user):
            if one.name == name:
                return one
        raise OwnServerMissing(name)

    async def add_server(self, user: str, server: OwnServer) -> None:
        """Raises OwnServerTaken and TooManyServers."""
        text = json.dumps(asdict(server), ensure_ascii=False)
        sealed = self._seal.close(text, bound_to=(_FOR_SERVER, user, server.name))
        row = {"user_id": user, "name": server.name, "sealed": sealed, "added_at": time.time()}
        columns = tables.servers.c
        own = columns.user_id == user

        def work(connection: Connection) -> None:
            # Nobody else adds for this user before we are done.
            _begin(connection, user)
            if connection.execute(
                select(columns.name).where(own, columns.name == server.name)
            ).first():
                raise OwnServerTaken(server.name)
            count = connection.execute(select(func.count()).where(own)).scalar_one()
            if count >= MOST_SERVERS:
                raise TooManyServers(MOST_SERVERS)
            connection.execute(tables.servers.insert(), row)

        await self._database.run(work)

    async def remove_server(self, user: str, name: str) -> None:
        """Raises OwnServerMissing."""
        columns = tables.servers.c
        chosen = delete(tables.servers).where(columns.user_id == user, columns.name == name)
        if not await self._database.run(lambda c: c.execute(chosen).rowcount):
            raise OwnServerMissing(name)
        await self._database.scrub()


def forget_user(connection: Connection, user: str) -> None:
    """All that a user has set, with their keys and servers: for one who is removed."""
    for table in (tables.settings, tables.keys, tables.servers):
        connection.execute(delete(table).where(table.c.user_id == user))


def changed_by(settings: UserSettings, changes: Mapping[str, Any]) -> UserSettings:
    """Each section's named fields; whoever hands them over has checked them."""
    new: dict[str, Any] = {}
    for name, value in changes.items():
        before = getattr(settings, name)
        new[name] = replace(before, **value) if isinstance(value, Mapping) else value
    return replace(settings, **new)


def _begin(connection: Connection, user: str) -> None:
    """Makes the user's row if there is none, and keeps other writers of it away."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = {"user_id": user, "body": "{}", "updated_at": time.time()}
    connection.execute(dialect.insert(tables.settings).on_conflict_do_nothing(), row)
    locked = select(tables.settings.c.user_id).where(tables.settings.c.user_id == user)
    connection.execute(locked.with_for_update())


def _read(connection: Connection, user: str) -> UserSettings:
    chosen = select(tables.settings.c.body).where(tables.settings.c.user_id == user)
    body = connection.execute(chosen).scalar_one_or_none()
    return UserSettings() if body is None else _parsed(json.loads(body))


def _parsed(body: Mapping[str, Any]) -> UserSettings:
    """What this program has no field for, another version has written: it is passed over."""
    usual = UserSettings()
    found: dict[str, Any] = {}
    for name in ("provider", "models", "budget", "egress", "policy"):
        section = getattr(usual, name)
        known = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in body.get(name, {}).items()
            if key in section.__dataclass_fields__
        }
        found[name] = replace(section, **known)
    return UserSettings(
        **found,
        skills_off=tuple(body.get("skills_off", ())),
        theme=body.get("theme", usual.theme),
    )


def _server(text: str) -> OwnServer:
    fields = json.loads(text)
    return OwnServer(**{**fields, "command": tuple(fields["command"])})


def _key_of(user: str, provider: str) -> Any:
    columns = tables.keys.c
    return delete(tables.keys).where(columns.user_id == user, columns.provider == provider)
