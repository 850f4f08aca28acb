"""After `forget` the words are nowhere: not in the database's files, not in blobs, not in what is held in memory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.memory.conftest import Blobs, Clock, SharedEmbedder

from crucible.errors import ForgettingIncomplete, MemoryMissing
from crucible.memory.memory import Memory
from crucible.memory.rules import RuleExtractor
from crucible.store import engines
from crucible.store.database import Database

ANA = "ana"
WORD = "Zanzibarquux"
SAID = f"My name is Ana Sousa and I live in {WORD}."


@pytest.fixture
def file_database(sqlite_template: Path, tmp_path: Path) -> Database:
    path = tmp_path / "db" / "crucible.db"
    path.parent.mkdir()
    path.write_bytes(sqlite_template.read_bytes())
    return Database(f"sqlite:///{path}")


async def test_after_forgetting_the_words_are_in_no_file(
    file_database: Database,
    blobs: Blobs,
    clock: Clock,
    embedder: SharedEmbedder,
    tmp_path: Path,
) -> None:
    memory = Memory(
        file_database,
        extractor=RuleExtractor(),
        embedder=embedder,
        recorder=blobs,
        eraser=blobs,
        clock=clock,
    )
    # Many neighbours, so that pages split and are moved while the fact is there.
    for number in range(25):
        await memory.remember(ANA, f"Owns the boat number {number}", kind="fact")
    await memory.extract_turn(ANA, "s1", 1, SAID)
    told = f"Ana told that {WORD} is her home."
    await memory.keep_summary(ANA, "s1", covers=1, text=told)
    for number in range(25):
        await memory.remember(ANA, f"Sold the house number {number}", kind="fact")
    (fact,) = [one for one in await memory.list(ANA) if WORD in one.text]
    await memory.edit(ANA, fact.id, text=f"Lives in the city of {WORD}")
    await memory.recall(ANA, f"where is {WORD}?", 1000)
    vector = (await embedder.embed([f"Lives in the city of {WORD}"]))[0]
    traces = (WORD.encode(), WORD.lower().encode(), _packed(vector))
    assert all(_holders(tmp_path, trace) for trace in (traces[0], traces[2]))

    forgotten = await memory.forget(ANA, fact.id)

    assert forgotten.sessions == ("s1",)
    for trace in traces:
        assert _holders(tmp_path, trace) == []
    assert len(blobs.entries) > 50, "the ledger's entries stay"
    with pytest.raises(MemoryMissing):
        await memory.find(ANA, fact.id)
    assert (await memory.recall(ANA, WORD, 1000)).items == ()
    assert WORD not in str(await memory.export(ANA))
    assert await memory.summary(ANA, "s1") is None
    (name,) = [one for one in await memory.list(ANA) if one.attribute == "name"]
    assert (name.text, name.source.quote) == ("Is named Ana Sousa", "")
    file_database.close()
    for trace in traces:
        assert _holders(tmp_path, trace) == []


async def test_a_superseded_fact_can_be_forgotten_and_with_it_all_history(
    file_database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    memory = Memory(file_database, extractor=RuleExtractor(), recorder=blobs, eraser=blobs)
    for place in ("Lisbonquux", "Bragaquux", "Portoquux"):
        await memory.extract_turn(ANA, "s1", 1, f"I moved to {place}.")
    (fact,) = await memory.list(ANA)
    forgotten = await memory.forget(ANA, fact.id, with_history=True)
    assert len(forgotten.facts) == 3
    assert _holders(tmp_path, b"quux") == []
    file_database.close()


async def test_a_user_can_be_forgotten_whole(
    file_database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    memory = Memory(file_database, extractor=RuleExtractor(), recorder=blobs, eraser=blobs)
    await memory.extract_turn(ANA, "s1", 1, f"I live in {WORD}. I'm allergic to {WORD}nuts.")
    await memory.extract_turn("eve", "s2", 1, "I live in Porto.")
    assert len((await memory.forget_all(ANA)).facts) == 2
    assert _holders(tmp_path, WORD.encode()) == []
    assert [fact.text for fact in await memory.list("eve")] == ["Lives in Porto"]
    assert (await memory.forget_all(ANA)).facts == ()
    file_database.close()


async def test_while_somebody_reads_the_log_it_is_said_that_a_trace_may_be_left(
    file_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_S", 0.1)
    memory = Memory(file_database, extractor=RuleExtractor())
    change = await memory.remember(ANA, f"I live in {WORD}")
    reader = sqlite3.connect(file_database.place)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM memory_facts").fetchone()
    with pytest.raises(ForgettingIncomplete):
        await memory.forget(ANA, change.fact.id)
    reader.rollback()
    reader.close()
    assert await memory.list(ANA) == ()
    assert (await memory.forget_all(ANA)).facts == ()
    assert _holders(tmp_path, WORD.encode()) == []
    file_database.close()


async def test_on_a_server_no_row_has_it(memory: Memory, database: Database, blobs: Blobs) -> None:
    await memory.extract_turn(ANA, "s1", 1, SAID)
    (fact,) = [one for one in await memory.list(ANA) if WORD in one.text]
    await memory.forget(ANA, fact.id)
    for table in ("memory_users", "memory_facts", "memory_summaries", "memory_silences"):
        rows = database.look(
            lambda c, table=table: c.execute(text(f"SELECT * FROM {table}")).fetchall()  # type: ignore[misc]
        )
        assert WORD not in str(rows)
    assert _holders(blobs.directory, WORD.encode()) == []


async def test_what_is_recorded_while_it_is_forgotten_is_erased(
    database: Database, blobs: Blobs
) -> None:
    class Late:
        """Enters a write only after the fact is gone."""

        async def record(
            self, *, user: str, session: str, turn: int, action: str, content: bytes
        ) -> str:
            (fact,) = await memory.list(user)
            await memory.forget(user, fact.id)
            return await blobs.record(
                user=user, session=session, turn=turn, action=action, content=content
            )

    memory = Memory(database, extractor=RuleExtractor(), recorder=Late(), eraser=blobs)
    await memory.remember(ANA, f"I live in {WORD}")
    assert _holders(blobs.directory, WORD.encode()) == []


async def test_a_blob_that_cannot_be_erased_leaves_the_fact_to_be_forgotten_again(
    database: Database, blobs: Blobs
) -> None:
    class Stuck:
        async def erase(self, blob: str) -> None:
            raise OSError("read-only")

    memory = Memory(database, extractor=RuleExtractor(), recorder=blobs, eraser=Stuck())
    change = await memory.remember(ANA, f"I live in {WORD}")
    with pytest.raises(OSError, match="read-only"):
        await memory.forget(ANA, change.fact.id)
    assert [fact.id for fact in await memory.list(ANA)] == [change.fact.id]


async def test_the_hash_that_stays_cannot_be_guessed(memory: Memory, blobs: Blobs) -> None:
    for user in (ANA, "eve"):
        await memory.remember(user, "I live in Porto")
    first, second = ((blobs.directory / name).read_bytes() for _, name in blobs.entries)
    assert len(first) == len(second)
    assert first[-40:] != second[-40:]


def _holders(directory: Path, trace: bytes) -> list[Path]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in files if trace in path.read_bytes()]


def _packed(vector: object) -> bytes:
    from crucible.memory.records import pack

    return pack(vector)[:64]  # type: ignore[arg-type]
