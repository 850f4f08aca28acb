"""What memory writes is in the ledger, and what is forgotten is erased there: `verify` says so and is content."""

from __future__ import annotations

from pathlib import Path

from crucible.ledger.ledger import Ledger
from crucible.ledger.live import verify_run
from crucible.ledger.steps import Kind
from crucible.memory.memory import Memory
from crucible.memory.recording import LedgerRecorder
from crucible.memory.rules import RuleExtractor
from crucible.store.database import Database

WORD = "Zanzibarquux"


async def test_forgetting_erases_the_content_and_leaves_a_ledger_that_holds(
    database: Database, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    ledger = Ledger(home, database)
    recorder = LedgerRecorder(ledger)
    memory = Memory(database, extractor=RuleExtractor(), recorder=recorder, eraser=recorder)
    await memory.extract_turn("ana", "s1", 1, f"I live in {WORD}.")
    await memory.remember("ana", "I'm allergic to peanuts")
    (fact,) = [one for one in await memory.list("ana") if WORD in one.text]
    (entry,) = await ledger.entries("s1")
    assert entry.kind == Kind.MEMORY_WRITE
    assert WORD not in str(entry)
    assert WORD.encode() in await ledger.blob("s1", str(entry.input))
    assert _holders(home, WORD.encode())

    await memory.forget("ana", fact.id)

    assert _holders(home, WORD.encode()) == []
    assert [one.kind for one in await ledger.entries("s1")] == [Kind.MEMORY_WRITE, Kind.ERASURE]
    ledger.settle()
    verdict = verify_run(
        "s1",
        database=database,
        heads=ledger.heads,
        contents=ledger.contents,
        key=ledger.key.public,
    )
    assert (verdict.findings, verdict.erased) == ((), 1)
    (other,) = [run.id for run in await ledger.runs(user="ana") if run.id != "s1"]
    (kept,) = await ledger.entries(other)
    assert b"peanuts" in await ledger.blob(other, str(kept.input))
    ledger.close()


def _holders(directory: Path, trace: bytes) -> list[Path]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in files if trace in path.read_bytes()]
