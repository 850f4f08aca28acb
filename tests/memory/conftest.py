"""Memory over either database, with the real embedding model: one for all tests of a process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.database import database, database_url, postgresql, sqlite_template

from crucible.memory.embedding import MiniLM
from crucible.memory.memory import Memory
from crucible.memory.rules import RuleExtractor
from crucible.store.database import Database

__all__ = ["database", "database_url", "postgresql", "sqlite_template"]

NOON = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * 86_400


class Blobs:
    """Contents in files, as a ledger keeps them, and the entries that stay."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.entries: list[tuple[str, str]] = []

    async def record(
        self, *, user: str, session: str, turn: int, action: str, content: bytes
    ) -> str:
        name = f"blob-{len(self.entries)}"
        (self.directory / name).write_bytes(content)
        self.entries.append((action, name))
        return name

    async def erase(self, blob: str) -> None:
        (self.directory / blob).unlink(missing_ok=True)


class SharedEmbedder:
    """One child process for every test, though each module has a loop of its own."""

    model = MiniLM.model

    def __init__(self, home: Path) -> None:
        self.home = home
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._embedder = self._call(self._make(home))

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        work = asyncio.run_coroutine_threadsafe(self._embedder.embed(texts), self._loop)
        return await asyncio.wrap_future(work)

    def close(self) -> None:
        self._call(self._embedder.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _make(self, home: Path) -> MiniLM:
        return MiniLM(home, idle_s=3600.0)

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class Answers:
    """A model that says what it was told to, and remembers what it was asked."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.prompts: list[str] = []

    async def ask(self, *, system: str, prompt: str, schema: Mapping[str, Any]) -> Any:
        self.prompts.append(prompt)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.fixture(scope="session")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedEmbedder]:
    made = SharedEmbedder(tmp_path_factory.mktemp("models"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def loop(run: Run) -> None:
    """Asynchronous tests need one."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    directory = tmp_path / "blobs"
    directory.mkdir()
    return Blobs(directory)


@pytest.fixture
def memory(database: Database, blobs: Blobs, clock: Clock) -> Memory:
    """By words alone: no model is started for it."""
    return Memory(database, extractor=RuleExtractor(), recorder=blobs, eraser=blobs, clock=clock)


@pytest.fixture
def knowing(database: Database, blobs: Blobs, clock: Clock, embedder: SharedEmbedder) -> Memory:
    """With the model that finds by meaning."""
    return Memory(
        database,
        extractor=RuleExtractor(),
        embedder=embedder,
        recorder=blobs,
        eraser=blobs,
        clock=clock,
    )
