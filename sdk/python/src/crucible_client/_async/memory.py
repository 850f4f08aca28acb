"""What a server's agents know of the user who calls."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from crucible_client._async.http import AsyncHttp
from crucible_client.reading import Reader
from crucible_client.records import Fact, FactKind, Recalled, Remembered, Summary


class AsyncMemory:
    """Of a client. Verbs that name a fact raise MemoryMissing."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def list(
        self, *, everything: bool = False, kind: FactKind | None = None, words: str | None = None
    ) -> list[Fact]:
        """The newest first; with `everything`, also what was replaced or has expired."""
        asked = {"state": "all" if everything else "active", "kind": kind, "q": words}
        return [Fact.read(one) for one in await self._http.pages("/memory/facts", params=asked)]

    async def add(
        self, text: str, *, kind: FactKind | None = None, pinned: bool = False
    ) -> Remembered:
        """Kept as it is written. It may confirm what is known, or replace it."""
        asked = {"text": text, "kind": kind, "pinned": pinned}
        return Remembered.read(await self._http.call("POST", "/memory/facts", json=asked))

    async def edit(
        self, fact: str, *, text: str | None = None, kind: FactKind | None = None
    ) -> Fact:
        asked = {"text": text, "kind": kind}
        return Fact.read(await self._http.call("PATCH", _path(fact), json=asked))

    async def pin(self, fact: str, *, pinned: bool = True) -> Fact:
        """What is pinned is always recalled, and never expires."""
        return Fact.read(await self._http.call("PATCH", _path(fact), json={"pinned": pinned}))

    async def recall(self, words: str, *, tokens: int = 500) -> Recalled:
        """What a turn with these words would be told, and why."""
        asked = {"q": words, "tokens": tokens}
        return Recalled.read(await self._http.call("GET", "/memory/recall", params=asked))

    async def history(self, fact: str) -> builtins.list[Fact]:
        """What it has replaced, the newest first."""
        return [Fact.read(one) for one in await self._http.call("GET", f"{_path(fact)}/history")]

    async def forget(self, fact: str, *, history: bool = False) -> int:
        """For good; with `history`, all that it has replaced as well. Tells how many that were."""
        asked = {"history": history}
        told = await self._http.call("DELETE", _path(fact), params=asked)
        return Reader(told).whole("facts")

    async def forget_all(self) -> int:
        """Everything that is known, for good."""
        return Reader(await self._http.call("DELETE", "/memory")).whole("facts")

    async def export(self) -> Mapping[str, Any]:
        """What `crucible memory import` reads."""
        told: Mapping[str, Any] = await self._http.call("GET", "/memory/export")
        return told

    async def is_on(self, *, session: str | None = None) -> bool:
        told = await self._http.call("GET", "/memory/settings", params={"session": session})
        return Reader(told).claim("on")

    async def turn(self, *, on: bool, session: str | None = None) -> None:
        """Off, nothing is kept and nothing recalled; what is known stays. For one session, or for all."""
        asked = {"on": on, "session": session or ""}
        await self._http.call("PUT", "/memory/settings", json=asked)

    async def summaries(self) -> builtins.list[Summary]:
        """What long conversations were cut down to."""
        return [Summary.read(one) for one in await self._http.pages("/memory/summaries")]


def _path(fact: str) -> str:
    return f"/memory/facts/{quote(fact, safe='')}"
