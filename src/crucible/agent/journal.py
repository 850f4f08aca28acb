"""What a session has told and not yet written down, and those who watch it.

Watchers read from here at their own pace: from memory what is recent, from the store what is older. A turn never
waits for one of them. What is told is written in the order in which it was told, many at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from crucible.agent.events import Event, Kind
from crucible.agent.keeping.base import SessionRecord, SessionStore
from crucible.agent.messages import Message
from crucible.errors import CrucibleError

_RECENT = 512
_PAGE = 500
_GATHER_S = 0.05
# More than a program can have told in the moment between telling and writing, also if its database stood still.
UNWRITTEN = 100_000


class Journal:
    """`head` gives the record as it is at the moment of writing."""

    def __init__(
        self,
        store: SessionStore,
        *,
        session: str,
        head: Callable[[], SessionRecord],
        messages: int,
        last_event: int,
    ) -> None:
        self._store = store
        self._session = session
        self._head = head
        self._recent: deque[Event] = deque()
        self._unwritten_events: list[Event] = []
        self._unwritten_messages: list[Message] = []
        self._written_messages = messages
        self._is_head_new = False
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None
        self._told = asyncio.Event()
        self._is_closed = False
        self._promised = 0
        self.last_number = last_event

    def tell(self, turn: int, kind: Kind, data: Mapping[str, Any]) -> Event:
        self.last_number += 1
        event = Event(number=self.last_number, turn=turn, kind=kind, at=time.time(), data=data)
        self._recent.append(event)
        self._unwritten_events.append(event)
        self._wake()
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_soon(), name=f"write {self._session}")
        return event

    def pass_over_lost(self) -> None:
        """Gives no number again that a program before may have told, and died before it was written.

        Who has seen that number and comes back reads on after it, and would miss what had it now.
        """
        self.last_number += UNWRITTEN

    async def promise(self, count: int) -> None:
        """Keeps that so many numbers more will be given away, before they are: with no turn under way, nobody passes
        over any. Raises CrucibleError."""
        self._promised = self.last_number + count
        self.head_changed()
        await self.write()

    def add(self, message: Message) -> None:
        self._unwritten_messages.append(message)

    def head_changed(self) -> None:
        self._is_head_new = True

    async def write(self) -> None:
        """Returns when all that was told before is kept. Raises CrucibleError where that failed; tried again then."""
        async with self._writing:
            while self._unwritten_events or self._unwritten_messages or self._is_head_new:
                await self._write_once()

    async def rewrite(self, messages: list[Message]) -> None:
        """All messages anew."""
        await self.write()
        async with self._writing:
            await self._store.rewrite(self._head(), messages)
            self._written_messages = len(messages)

    async def let_go(self) -> None:
        """What is written is read from the store from now on: it has other words there."""
        async with self._writing:
            unwritten = len(self._unwritten_events)
            while len(self._recent) > unwritten:
                self._recent.popleft()

    async def watch(self, after: int) -> AsyncGenerator[Event, None]:
        """Everything after a number, as long as there is a session; the kept ones first."""
        while True:
            found = await self._read(after)
            for event in found:
                after = event.number
                yield event
            if not found:
                # Never waited for twice: what the store has lost does not come back.
                after = max(after, self._oldest - 1)
            if self.last_number > after:
                continue
            if self._is_closed:
                return
            # Whoever wakes us puts a new one in its place.
            await self._told.wait()

    async def kept(self, after: int) -> AsyncIterator[Event]:
        """What there is now, and no more."""
        last = self.last_number
        while after < last:
            found = await self._read(after)
            for event in found:
                after = event.number
                if after <= last:
                    yield event
            if not found:
                after = max(after + 1, self._oldest - 1)

    async def close(self) -> None:
        if self._writer is not None and not self._writer.done():
            self._writer.cancel()
            await asyncio.wait({self._writer})
        with contextlib.suppress(CrucibleError):
            await self.write()
        self._is_closed = True
        self._wake()

    @property
    def _oldest(self) -> int:
        return self._recent[0].number if self._recent else self.last_number + 1

    async def _read(self, after: int) -> list[Event]:
        oldest = self._oldest
        if after >= oldest - 1:
            # Those of this program have no gaps, so that the place of one is known.
            return [self._recent[at] for at in range(max(0, after - oldest + 1), len(self._recent))]
        return list(await self._store.events(self._session, after=after, limit=_PAGE))

    def _wake(self) -> None:
        told, self._told = self._told, asyncio.Event()
        told.set()

    async def _write_soon(self) -> None:
        # Whoever must know that it is written writes at once; for the rest, many words are one transaction.
        await asyncio.sleep(_GATHER_S)
        try:
            await self.write()
        except CrucibleError:
            # Kept in hand, and raised to the turn when it waits for what it told.
            return

    async def _write_once(self) -> None:
        events, messages = self._unwritten_events, self._unwritten_messages
        self._unwritten_events, self._unwritten_messages = [], []
        was_new, self._is_head_new = self._is_head_new, False
        written = False
        try:
            head = self._head()
            promised = replace(head, last_event=max(head.last_event, self._promised))
            await self._store.append(
                promised, first=self._written_messages, messages=messages, events=events
            )
            written = True
        finally:
            if written:
                self._written_messages += len(messages)
                self._forget_old()
            else:
                self._unwritten_events[:0] = events
                self._unwritten_messages[:0] = messages
                self._is_head_new = self._is_head_new or was_new

    def _forget_old(self) -> None:
        keep = max(_RECENT, len(self._unwritten_events))
        while len(self._recent) > keep:
            self._recent.popleft()
