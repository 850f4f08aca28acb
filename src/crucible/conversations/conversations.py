"""The conversations of all users: made, listed, searched, named, thrown away and had back.

What was said and done in one is its session's, in the room above, which tells us here of each turn that ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection

from crucible.conversations import records, searching
from crucible.conversations.facts import Conversation, Found, Position
from crucible.conversations.limits import Limits
from crucible.conversations.pace import Pace
from crucible.conversations.titles import check_title, title_of
from crucible.conversations.uploads import Uploads
from crucible.errors import ConversationMissing
from crucible.store.database import Database

UNDO_S = 600.0


class Conversations:
    """A `Chronicler` of the engine. What is another user's is missing."""

    def __init__(
        self,
        database: Database,
        *,
        uploads: Path,
        limits: Limits | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._now = now
        self.limits = limits or Limits()
        self.uploads = Uploads(database, uploads, self.limits, now=now)
        self.pace = Pace(self.limits.turns_per_minute)

    async def create(
        self, id: str, user: str, *, title: str = "", prompt: str = ""
    ) -> Conversation:
        now = self._now()
        new = Conversation(
            id=id,
            user=user,
            title=check_title(title) if title else title_of(prompt),
            is_pinned=False,
            model="",
            created_at=now,
            updated_at=now,
        )
        await self._database.run(lambda connection: records.add(connection, new))
        return new

    async def get(self, id: str, user: str) -> Conversation:
        """Raises ConversationMissing."""
        return await self._database.read(lambda connection: _own(connection, id, user))

    async def change(
        self, id: str, user: str, *, title: str | None = None, is_pinned: bool | None = None
    ) -> Conversation:
        def work(connection: Connection) -> Conversation:
            found = _own(connection, id, user)
            changed = replace(
                found,
                title=found.title if title is None else check_title(title),
                is_pinned=found.is_pinned if is_pinned is None else is_pinned,
            )
            records.change(connection, id, title=changed.title, is_pinned=changed.is_pinned)
            return changed

        return await self._database.run(work)

    async def page(
        self, user: str, *, query: str = "", after: Position | None = None, limit: int
    ) -> list[Found]:
        """Pinned ones first, then the newest."""
        words = query.strip()

        def work(connection: Connection) -> list[Found]:
            which = searching.matching(words) if words else None
            found = records.page(connection, user, after=after, limit=limit, which=which)
            return [
                Found(
                    conversation=one,
                    snippet=searching.snippet(connection, one.id, words) if words else "",
                )
                for one in found
            ]

        return await self._database.read(work)

    async def prompted(self, id: str, prompt: str) -> None:
        """A turn begins: it comes to the top of the list, and has a title from here on."""

        def work(connection: Connection) -> None:
            found = records.find(connection, id)
            if found is not None:
                title = found.title or title_of(prompt)
                records.change(connection, id, title=title, updated_at=self._now())

        await self._database.run(work)

    async def throw_away(self, id: str, user: str) -> None:
        """It can be had back for UNDO_S."""

        def work(connection: Connection) -> None:
            _own(connection, id, user)
            records.change(connection, id, deleted_at=self._now())

        await self._database.run(work)

    async def restore(self, id: str, user: str) -> Conversation:
        """Raises ConversationMissing where it is gone for good; one that was never thrown away is as it was."""

        def work(connection: Connection) -> Conversation:
            found = records.find(connection, id)
            if found is None or found.user != user or self._is_due(found):
                raise ConversationMissing(id)
            records.change(connection, id, deleted_at=None)
            return replace(found, deleted_at=None)

        return await self._database.run(work)

    async def due(self) -> list[Conversation]:
        """Those that nobody can have back any more."""
        before = self._now() - UNDO_S
        return await self._database.read(lambda connection: records.thrown_away(connection, before))

    async def ids(self) -> list[str]:
        return await self._database.read(records.all_ids)

    async def ended(self, session: str, turn: int, *, said: str, answer: str, model: str) -> None:
        def work(connection: Connection) -> None:
            found = records.find(connection, session)
            if found is None:
                return
            records.change(
                connection,
                session,
                title=found.title or title_of(said),
                model=(model or found.model)[:300],
                updated_at=self._now(),
            )
            records.put_text(connection, session, turn, "user", said)
            records.put_text(connection, session, turn, "assistant", answer)

        await self._database.run(work)

    async def retracted(self, session: str, from_turn: int) -> None:
        await self._database.run(
            lambda connection: records.remove_texts(connection, session, from_turn)
        )

    async def redact(self, user: str, stays: Callable[[str, str], str]) -> None:
        """Titles and texts become what `stays` of them, which is given the conversation and the text."""
        await self._database.run(lambda connection: records.redact(connection, user, stays))

    async def branched(self, id: str, other: str, turn: int) -> Conversation:
        """`other` is a new session with the turns of this one up to that."""

        def work(connection: Connection) -> Conversation:
            found = records.find(connection, id)
            if found is None:
                raise ConversationMissing(id)
            now = self._now()
            new = replace(
                found, id=other, is_pinned=False, created_at=now, updated_at=now, deleted_at=None
            )
            records.add(connection, new)
            records.copy_texts(connection, id, other, turn)
            return new

        return await self._database.run(work)

    async def gone(self, session: str) -> None:
        await self.uploads.remove_of(session)
        await self._database.run(lambda connection: records.remove(connection, session))

    def _is_due(self, found: Conversation) -> bool:
        return found.deleted_at is not None and found.deleted_at <= self._now() - UNDO_S


def _own(connection: Connection, id: str, user: str) -> Conversation:
    found = records.find(connection, id)
    if found is None or found.user != user or found.deleted_at is not None:
        raise ConversationMissing(id)
    return found
