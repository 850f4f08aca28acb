"""Conversations that nobody can have back are gone for good, also for a program that starts later."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.agent.scenes import Say
from tests.server.agent_stage import Stage
from tests.server.chatting import API, said, upload
from tests.server.conftest import serving

from crucible.books import open_books
from crucible.conversations.conversations import UNDO_S, Conversations
from crucible.conversations.looking import may_have_leftovers
from crucible.conversations.purging import sweep
from crucible.conversations.uploads import UNUSED_S
from crucible.errors import ContentGone, SessionMissing
from crucible.store.lazy import own_database

pytestmark = pytest.mark.usefixtures("run")


def later(stage: Stage, seconds: float) -> Conversations:
    """As a program would have them that starts so much later."""
    return Conversations(
        stage.books.database,
        uploads=stage.books.home / "uploads",
        now=lambda: time.time() + seconds,
    )


async def test_a_deleted_one_goes_with_all_it_had_when_its_time_is_over(stage: Stage) -> None:
    stage.play(Say(text="Secret answer."), Say(text="Stays."))
    engine, ledger = stage.scene.engine, stage.ledger
    async with stage.server.client() as http:
        file = (await upload(http, "a.txt", b"x")).json()["id"]
        gone = (await said(http, "Secret prompt", attachments=[file]))["conversation"]
        kept = (await said(http, "Other"))["conversation"]
        contents = [one.input for one in await ledger.entries(gone) if one.input]
        await http.delete(f"{API}/conversations/{gone}")
        await sweep(later(stage, 0), engine, ledger)
        assert (await engine.session(gone)).id == gone
        assert (await http.post(f"{API}/conversations/{gone}/restore")).status_code == 200
        await http.delete(f"{API}/conversations/{gone}")
        await sweep(later(stage, UNDO_S + 1), engine, ledger)
        with pytest.raises(SessionMissing):
            await engine.session(gone)
        with pytest.raises(ContentGone):
            await ledger.blob(gone, contents[0])
        assert list((stage.books.home / "uploads").iterdir()) == []
        assert (await http.post(f"{API}/conversations/{gone}/restore")).status_code == 404
        listed = (await http.get(f"{API}/conversations")).json()["items"]
        assert [one["id"] for one in listed] == [kept]
        found = await http.get(f"{API}/conversations", params={"q": "secret"})
        assert found.json()["items"] == []


async def test_files_that_no_turn_used_go_after_a_day(stage: Stage) -> None:
    stage.play(Say(text="Read."))
    async with stage.server.client() as http:
        unused = (await upload(http, "a.txt", b"x")).json()["id"]
        used = (await upload(http, "b.txt", b"y")).json()["id"]
        await said(http, "Use", attachments=[used])
        directory = stage.books.home / "uploads"
        await sweep(later(stage, UNUSED_S - 60), stage.scene.engine, stage.ledger)
        assert {path.name for path in directory.iterdir()} == {unused, used}
        await sweep(later(stage, UNUSED_S + 60), stage.scene.engine, stage.ledger)
        assert {path.name for path in directory.iterdir()} == {used}


async def test_one_whose_session_is_gone_is_forgotten(stage: Stage) -> None:
    known = later(stage, 0)
    await known.create("ses-lost", "local", title="Lost")
    await sweep(known, stage.scene.engine, stage.ledger)
    assert await known.ids() == []


async def test_what_was_deleted_is_looked_for_when_the_doors_open(stage: Stage) -> None:
    """Nobody needs to ask for a session first: one look at the database tells whether there is work."""
    home = stage.server.home
    place = f"sqlite:///{home / 'crucible.db'}"
    stage.play(Say(text="One."), Say(text="Two."))
    async with stage.server.client() as http:
        id = (await said(http, "Hello"))["conversation"]
        assert not may_have_leftovers(home, place)
        await http.delete(f"{API}/conversations/{id}")
        assert may_have_leftovers(home, place)
        await http.post(f"{API}/conversations/{id}/restore")
        assert not may_have_leftovers(home, place)
        file = (await upload(http, "a.txt", b"x")).json()["id"]
        assert may_have_leftovers(home, place), "a file that no turn has used"
        await said(http, "Use", attachments=[file])
        assert not may_have_leftovers(home, place)
    assert may_have_leftovers(home, "postgresql://somewhere/else"), "it cannot be looked at"
    assert not may_have_leftovers(home / "none")


async def test_doors_that_open_purge_what_is_due(tmp_path: Path) -> None:
    """With the real engine, which nobody asks for anything."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    books = open_books(home, own_database(home))
    kept = Conversations(
        books.database, uploads=home / "uploads", now=lambda: time.time() - 2 * UNDO_S
    )
    await kept.create("b" * 16, "local", title="Old", prompt="Hello")
    await kept.throw_away("b" * 16, "local")
    async with serving(home), asyncio.timeout(300):
        while await kept.ids():  # noqa: ASYNC110 - nobody could wake us
            await asyncio.sleep(0.05)
    await books.close()
    books.database.close()
