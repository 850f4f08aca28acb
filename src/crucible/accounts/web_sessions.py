"""Browsers that are signed in: 256 random bits each, of which only a hash is kept.

One ends when it was not used for a while, and in any case after a month.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, or_, select, update

from crucible.store.database import Database
from crucible.store.tables.accounts import web_sessions

IDLE_S: Final = 7 * 86_400.0
LONGEST_S: Final = 30 * 86_400.0
MOST_OF_ONE_USER: Final = 50
_LONGEST_TEXT: Final = 100
# What is used all the time need not be written all the time.
_NOTED_EVERY_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSession:
    id: str
    user: str
    created_at: float
    seen_at: float
    expires_at: float
    browser: str
    address: str


class WebSessions:
    """`clock` is for tests."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def open(self, user: str, *, browser: str, address: str) -> tuple[WebSession, str]:
        """The session and its text, which is told this once. Of too many the oldest ends."""
        now = self._clock()
        text = secrets.token_urlsafe(32)
        session = WebSession(
            id=secrets.token_hex(8),
            user=user,
            created_at=now,
            seen_at=now,
            expires_at=now + LONGEST_S,
            browser=_plain(browser, 200),
            address=_plain(address, 64),
        )

        def work(connection: Connection) -> None:
            _forget(connection, now)
            connection.execute(web_sessions.insert(), {**_row(session), "hash": hash_of(text)})
            query = select(web_sessions.c.id).where(web_sessions.c.user_id == user)
            newest = query.order_by(web_sessions.c.created_at.desc(), web_sessions.c.id)
            old = connection.execute(newest.offset(MOST_OF_ONE_USER)).scalars().all()
            connection.execute(delete(web_sessions).where(web_sessions.c.id.in_(old)))

        await self._database.run(work)
        return session, text

    async def find(self, text: str) -> WebSession | None:
        """The one of this text, if there is one and its time is not over. It counts as used."""
        if not 0 < len(text) <= _LONGEST_TEXT or not text.isascii():
            return None
        now = self._clock()
        query = select(web_sessions).where(web_sessions.c.hash == hash_of(text))
        session = await self._database.read(lambda connection: _first(connection, query))
        if session is None or not _is_good(session, now):
            return None
        if now - session.seen_at > _NOTED_EVERY_S:
            await self._database.run(lambda connection: _note(connection, session.id, now))
        return session

    async def is_good(self, id: str) -> bool:
        query = select(web_sessions).where(web_sessions.c.id == id)
        session = await self._database.read(lambda connection: _first(connection, query))
        return session is not None and _is_good(session, self._clock())

    async def users_of(self, ids: Collection[str]) -> dict[str, str]:
        """Of those that are good: whose they are."""
        now = self._clock()

        def work(connection: Connection) -> dict[str, str]:
            rows = connection.execute(select(web_sessions).where(web_sessions.c.id.in_(ids)))
            found = [_session(row) for row in rows.mappings()]
            return {one.id: one.user for one in found if _is_good(one, now)}

        return await self._database.read(work) if ids else {}

    async def of(self, user: str) -> list[WebSession]:
        """Those that are good, the newest first."""
        now = self._clock()

        def work(connection: Connection) -> list[WebSession]:
            query = select(web_sessions).where(web_sessions.c.user_id == user)
            rows = connection.execute(query.order_by(web_sessions.c.created_at.desc())).mappings()
            return [one for row in rows if _is_good(one := _session(row), now)]

        return await self._database.read(work)

    async def end(self, user: str, id: str) -> bool:
        """False if the user has no such session."""
        wanted = (web_sessions.c.user_id == user, web_sessions.c.id == id)
        return await self._database.run(
            lambda connection: bool(
                connection.execute(delete(web_sessions).where(*wanted)).rowcount
            )
        )


def hash_of(text: str) -> str:
    """One round is enough: nobody guesses 256 bits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _is_good(session: WebSession, now: float) -> bool:
    return now < session.expires_at and now - session.seen_at < IDLE_S


def _forget(connection: Connection, now: float) -> None:
    is_over = or_(web_sessions.c.expires_at <= now, web_sessions.c.seen_at <= now - IDLE_S)
    connection.execute(delete(web_sessions).where(is_over))


def _note(connection: Connection, id: str, now: float) -> None:
    connection.execute(update(web_sessions).where(web_sessions.c.id == id).values(seen_at=now))


def _first(connection: Connection, query: Any) -> WebSession | None:
    row = connection.execute(query).mappings().first()
    return None if row is None else _session(row)


def _session(row: Any) -> WebSession:
    names = ("id", "created_at", "seen_at", "expires_at", "browser", "address")
    return WebSession(user=row["user_id"], **{name: row[name] for name in names})


def _row(session: WebSession) -> dict[str, Any]:
    names = ("id", "created_at", "seen_at", "expires_at", "browser", "address")
    return {"user_id": session.user, **{name: getattr(session, name) for name in names}}


def _plain(text: str, most: int) -> str:
    """What a browser says of itself is shown to its user again: nothing but plain characters."""
    return "".join(one for one in text[:most] if " " <= one <= "~")
