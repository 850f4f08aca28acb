"""What this program keeps in its database: the engine and the doors work on the same objects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from crucible.values import dataclass

if TYPE_CHECKING:
    from crucible.accounts.budgets import Budgets
    from crucible.accounts.users import Users
    from crucible.agent.keeping.base import SessionStore
    from crucible.conversations.settings import Settings
    from crucible.ledger.ledger import Ledger
    from crucible.memory.embedding import MiniLM
    from crucible.memory.memory import Memory
    from crucible.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """`home` is where the files beside the database lie. Whoever opened them closes them, after all others are done.

    The database is closed by who opened that.
    """

    home: Path
    database: Database
    ledger: Ledger
    memory: Memory
    embedder: MiniLM
    budgets: Budgets
    users: Users
    settings: Settings

    async def close(self) -> None:
        import asyncio

        await self.embedder.close()
        # It waits for what has begun.
        await asyncio.to_thread(self.ledger.close)


def open_books(home: Path, database: Database) -> Books:
    """Loads a good deal, and reaches nothing yet."""
    from crucible.accounts.budgets import Budgets
    from crucible.accounts.users import Users
    from crucible.agent.forgetting import Keeper
    from crucible.conversations.conversations import Conversations
    from crucible.conversations.sealing import Seal
    from crucible.conversations.settings import Settings
    from crucible.ledger.ledger import Ledger
    from crucible.memory.embedding import MiniLM
    from crucible.memory.memory import Memory
    from crucible.memory.recording import LedgerRecorder
    from crucible.memory.rules import RuleExtractor

    ledger = Ledger(home, database)
    entries = LedgerRecorder(ledger)
    embedder = MiniLM(home)
    keeper = Keeper(
        lambda: session_store(home, database),
        ledger,
        Conversations(database, uploads=home / "uploads"),
    )
    return Books(
        home=home,
        database=database,
        ledger=ledger,
        memory=Memory(
            database,
            extractor=RuleExtractor(),
            embedder=embedder,
            recorder=entries,
            eraser=entries,
            keeper=keeper,
        ),
        embedder=embedder,
        budgets=Budgets(database),
        users=Users(database),
        settings=Settings(database, Seal(home)),
    )


def session_store(home: Path, database: Database) -> SessionStore:
    """Where sessions are kept, by settings."""
    from crucible.agent.keeping.choosing import VARIABLE, choose_store
    from crucible.user_file import gather

    kept = gather(dict(os.environ), only="database").get(VARIABLE)
    return choose_store(kept.text if kept else "", home=home, database=lambda: database)
