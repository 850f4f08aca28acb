"""Forgetting in what the engine keeps: sessions lose the words and keep their places, recorded contents are erased.

A turn under way may write them again, so nothing is forgotten while the user has one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from crucible.agent.events import Event
from crucible.agent.keeping.base import SessionRecord, SessionStore
from crucible.agent.redacting import add_prompts, is_touched, redact_events, redact_messages
from crucible.errors import ContentGone, SessionBusy
from crucible.ledger.chain import Entry
from crucible.ledger.ledger import Ledger
from crucible.memory.facts import Fact
from crucible.memory.traces import Traces

_PAGE = 500
# In the record of these steps are the words of people and models; in others, those of programs.
_SPOKEN = ("prompt", "model", "memory")

Change = Callable[[str, str], str]


class Searched(Protocol):
    """Where people search in their conversations, by copies of what was said."""

    async def redact(self, user: str, stays: Change) -> None:
        """Texts become what `stays` of them, which is given the conversation and the text."""
        ...


class Keeper:
    """Of memory, for sessions and their record."""

    def __init__(
        self, store: Callable[[], SessionStore], ledger: Ledger, searched: Searched
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._searched = searched

    async def forget(self, user: str, gone: Sequence[Fact]) -> None:
        """Raises SessionBusy, and then nothing has changed."""
        store, traces = self._store(), Traces(gone)
        own = [record for record in await store.list() if record.options.user == user]
        for record in own:
            if record.turn is not None:
                raise SessionBusy(record.id)
        touched = {record.id for record in own if await self._look(store, record, traces)} | {
            session for session, _ in traces.sources
        }
        for record in own:
            await _redact(store, record.id, traces, closely=record.id in touched)
        await self._searched.redact(
            user, lambda id, text: traces.redacted(text, closely=id in touched)
        )
        await self._erase(user, traces, touched)

    async def _look(self, store: SessionStore, record: SessionRecord, traces: Traces) -> bool:
        events = await _events(store, record.id)
        add_prompts(record.id, events, traces)
        return is_touched(record.id, events, traces)

    async def _erase(self, user: str, traces: Traces, touched: set[str]) -> None:
        before_us: int | None = None
        while runs := await self._ledger.runs(user=user, before_us=before_us, limit=_PAGE):
            for run in runs:
                names = await self._names(run.id, traces, closely=run.id in touched)
                if names:
                    await self._ledger.erase(run.id, names, reason="forgotten")
            before_us = runs[-1].opened_us

    async def _names(self, run: str, traces: Traces, *, closely: bool) -> set[str]:
        """Of contents in which it is."""
        found: set[str] = set()
        for entry in await self._ledger.entries(run):
            near = closely and str(entry.facts.get("step", "")) in _SPOKEN
            for name in _contents(entry):
                try:
                    content = await self._ledger.blob(run, name)
                except ContentGone:
                    continue
                # In a thread: it may be large.
                if await asyncio.to_thread(_is_in, content, traces, near):
                    found.add(name)
        return found


async def _redact(store: SessionStore, session: str, traces: Traces, *, closely: bool) -> None:
    kept = await store.load(session)
    told = await _events(store, session)
    messages = await asyncio.to_thread(redact_messages, kept.messages, traces, closely=closely)
    events = await asyncio.to_thread(redact_events, told, traces, closely=closely)
    if messages or events:
        await store.redact(session, messages=messages, events=events)


async def _events(store: SessionStore, session: str) -> list[Event]:
    found: list[Event] = []
    while page := await store.events(session, after=found[-1].number if found else 0, limit=_PAGE):
        found += page
    return found


def _is_in(content: bytes, traces: Traces, closely: bool) -> bool:
    return traces.is_in(_text(content), closely=closely)


def _contents(entry: Entry) -> Iterator[str]:
    yield from (name for name in (entry.input, entry.output) if name is not None)


def _text(content: bytes) -> str:
    """All texts in it: in JSON, letters may be written as numbers."""
    try:
        return "\n".join(_texts(json.loads(content)))
    except (ValueError, RecursionError):
        return content.decode(errors="replace")


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
            if value[:1] in ("{", "["):
                yield from _within(value)
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)


def _within(text: str) -> Iterator[str]:
    """The arguments of a call are JSON in JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from _texts(value)
