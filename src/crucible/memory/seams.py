"""What memory is handed by who puts the program together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from crucible.memory.facts import Candidate, Fact


class Extractor(Protocol):
    """Finds what is worth keeping. It is given the user's own words and nothing else.

    Finding nothing is an answer. What it raises ends the extraction of that turn, never the turn.
    """

    async def extract(self, words: str) -> Sequence[Candidate]: ...


class Embedder(Protocol):
    """Texts to vectors of length one. `model` names their space: vectors of two models are never compared.

    Raises PrerequisiteMissing where what it needs is not installed: then words alone find.
    """

    @property
    def model(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]: ...


class Ask(Protocol):
    """One question to a model, answered by an object that should fit the schema. It is not trusted to."""

    async def ask(
        self, *, system: str, prompt: str, schema: Mapping[str, Any]
    ) -> Mapping[str, Any]: ...


class Recorder(Protocol):
    """Enters a write into the ledger, and keeps its content apart under the name that is returned."""

    async def record(
        self, *, user: str, session: str, turn: int, action: str, content: bytes
    ) -> str: ...


class Eraser(Protocol):
    """Removes a content for good; the ledger's hash of it stays. One that is not there is no error."""

    async def erase(self, blob: str) -> None: ...


class Keeper(Protocol):
    """Keeps what users said elsewhere: conversations, and the record of what was done in them."""

    async def forget(self, user: str, gone: Sequence[Fact]) -> None:
        """Takes out what tells of these facts. Can be called again. Raises where something may be left."""
        ...
