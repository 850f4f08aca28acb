"""What users have set, on both kinds of database, and that their keys are sealed there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update
from tests.conftest import Run

from crucible.conversations.sealing import Seal
from crucible.conversations.settings import MOST_SERVERS, OwnServer, Settings, UserSettings
from crucible.errors import OwnServerMissing, OwnServerTaken, SecretUnreadable, TooManyServers
from crucible.store.database import Database
from crucible.store.tables import settings as tables

KEY = "sk-own-0123456789abcdefghij"


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> Settings:
    return Settings(database, Seal(tmp_path))


async def test_sections_are_changed_in_what_they_name(settings: Settings, run: Run) -> None:
    assert await settings.get("ada") == UserSettings()
    await settings.change("ada", {"models": {"agent": "p:one"}, "theme": "dark"})
    await settings.change("ada", {"models": {"chat": "p:two"}, "egress": {"hosts": ("a.test",)}})
    found = await settings.get("ada")
    assert (found.models.agent, found.models.chat, found.theme) == ("p:one", "p:two", "dark")
    assert (found.egress.network, found.egress.hosts) == ("none", ("a.test",))
    assert await settings.get("bob") == UserSettings()
    await settings.change("ada", {"budget": {"usd": 1.5}})
    await settings.change("ada", {"budget": {"usd": None}})
    assert (await settings.get("ada")).budget.usd is None


async def test_changes_at_once_lose_none(settings: Settings, run: Run) -> None:
    names = ("agent", "chat", "memory")
    await asyncio.gather(
        *(settings.change("ada", {"models": {name: f"p:{name}"}}) for name in names),
        settings.change("ada", {"theme": "light"}),
    )
    found = await settings.get("ada")
    assert [getattr(found.models, name) for name in names] == ["p:agent", "p:chat", "p:memory"]
    assert found.theme == "light"


async def test_what_another_version_wrote_is_passed_over(
    settings: Settings, database: Database, run: Run
) -> None:
    await settings.change("ada", {"theme": "dark"})
    body = '{"theme": "dark", "models": {"agent": "p:one", "vision": "p:two"}, "more": 1}'
    await database.run(lambda c: c.execute(update(tables.settings).values(body=body)))
    found = await settings.get("ada")
    assert (found.models.agent, found.theme) == ("p:one", "dark")


async def test_keys_are_a_users_own_and_are_sealed(
    settings: Settings, database: Database, run: Run, tmp_path: Path
) -> None:
    await settings.set_key("ada", "openai", "first")
    await settings.set_key("ada", "openai", KEY)
    assert await settings.keys("ada") == {"openai": KEY}
    assert await settings.keys("bob") == {}
    assert await settings.has_keys("ada") == {"openai"}
    sealed = await database.read(lambda c: c.execute(select(tables.keys.c.sealed)).scalar_one())
    assert KEY.encode() not in sealed
    path = tmp_path / "keys" / "settings.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert KEY not in repr(settings._seal)
    assert await settings.drop_key("ada", "openai")
    assert not await settings.drop_key("ada", "openai")
    assert await settings.keys("ada") == {}


async def test_a_key_that_was_moved_or_changed_opens_for_nobody(
    settings: Settings, database: Database, run: Run
) -> None:
    await settings.set_key("ada", "openai", KEY)
    await settings.set_key("ada", "groq", "another key")

    def forge(**values: object) -> None:
        chosen = update(tables.keys).where(tables.keys.c.provider == "openai")
        database.do(lambda c: c.execute(chosen.values(**values)))

    forge(user_id="bob")
    with pytest.raises(SecretUnreadable):
        await settings.keys("bob")
    forge(user_id="ada", provider="anthropic")
    with pytest.raises(SecretUnreadable) as caught:
        await settings.keys("ada")
    assert KEY not in str(caught.value)


async def test_with_another_key_file_nothing_opens_and_that_is_said(
    settings: Settings, database: Database, run: Run, tmp_path: Path
) -> None:
    await settings.set_key("ada", "openai", KEY)
    other = Settings(database, Seal(tmp_path / "other"))
    with pytest.raises(SecretUnreadable, match="another key"):
        await other.keys("ada")
    (tmp_path / "keys" / "settings.key").chmod(0o644)
    with pytest.raises(SecretUnreadable, match="others can read it"):
        await Settings(database, Seal(tmp_path)).keys("ada")


def test_of_two_that_begin_at_once_one_makes_the_key(tmp_path: Path) -> None:
    first, second = Seal(tmp_path), Seal(tmp_path)
    sealed = first.close("word", bound_to=("a",))
    assert second.open(sealed, bound_to=("a",)) == "word"
    for bad in (b"", b"\x01", b"\x02" + sealed[1:], sealed[:-1], sealed + b"x"):
        with pytest.raises(SecretUnreadable):
            second.open(bad, bound_to=("a",))


async def test_servers_are_a_users_own_sealed_and_bounded(
    settings: Settings, database: Database, run: Run
) -> None:
    one = OwnServer(name="one", url="https://a.test/mcp", headers={"Authorization": KEY})
    await settings.add_server("ada", one)
    assert await settings.server("ada", "one") == one
    assert KEY not in repr(one)
    with pytest.raises(OwnServerTaken):
        await settings.add_server("ada", one)
    await settings.add_server("bob", replace(one, command=("run",), url=""))
    assert (await settings.server("bob", "one")).command == ("run",)

    def sealed(connection: Connection) -> bytes:
        return b"".join(connection.execute(select(tables.servers.c.sealed)).scalars())

    assert KEY.encode() not in await database.read(sealed)
    with pytest.raises(OwnServerMissing):
        await settings.server("ada", "none")
    await settings.remove_server("ada", "one")
    with pytest.raises(OwnServerMissing):
        await settings.remove_server("ada", "one")
    for number in range(MOST_SERVERS):
        await settings.add_server("ada", replace(one, name=f"n{number}"))
    with pytest.raises(TooManyServers):
        await settings.add_server("ada", replace(one, name="more"))
