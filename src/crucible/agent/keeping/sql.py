"""Sessions in the database that the rest of the state is in: SQLite, or PostgreSQL by URL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, update

from crucible.agent import messages as message_form
from crucible.agent.events import MARKED, Event, Marked
from crucible.agent.keeping.base import (
    Kept,
    SessionRecord,
    event_from_json,
    event_to_json,
    record_from_json,
    record_to_json,
)
from crucible.agent.messages import Message
from crucible.errors import SessionMissing, StateDamaged
from crucible.store.database import Database
from crucible.store.tables import sessions as tables


class SqlSessions:
    """A `SessionStore`. The database is its owner's to close."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, record: SessionRecord) -> None:
        await self._database.run(lambda connection: _save(connection, record))

    async def append(
        self,
        record: SessionRecord,
        *,
        first: int,
        messages: Sequence[Message],
        events: Sequence[Event],
    ) -> None:
        rows = _message_rows(record.id, messages, first)
        told = [
            {"session": record.id, "number": event.number, "body": _text(event_to_json(event))}
            for event in events
        ]
        marks = [
            {"session": record.id, "kind": one.kind, "number": one.number, "turn": one.turn}
            for one in events
            if one.kind in MARKED
        ]

        def work(connection: Connection) -> None:
            _save(connection, record)
            if rows:
                _drop_messages(connection, record.id, first)
                connection.execute(insert(tables.messages), rows)
            if told:
                _drop_events(connection, record.id, events[0].number)
                connection.execute(insert(tables.events), told)
            if marks:
                connection.execute(insert(tables.marks), marks)

        await self._database.run(work)

    async def rewrite(self, record: SessionRecord, messages: Sequence[Message]) -> None:
        rows = _message_rows(record.id, messages, 0)

        def work(connection: Connection) -> None:
            _save(connection, record)
            _drop_messages(connection, record.id, 0)
            if rows:
                connection.execute(insert(tables.messages), rows)

        await self._database.run(work)

    async def redact(
        self, session: str, *, messages: Mapping[int, Message], events: Sequence[Event]
    ) -> None:
        def work(connection: Connection) -> None:
            message, event = tables.messages.c, tables.events.c
            for position, changed in messages.items():
                place = update(tables.messages).where(
                    message.session == session, message.position == position
                )
                body = _text(message_form.to_json(changed))
                connection.execute(place.values(body=body))
            for told in events:
                place = update(tables.events).where(
                    event.session == session, event.number == told.number
                )
                connection.execute(place.values(body=_text(event_to_json(told))))

        await self._database.run(work)

    async def load(self, session: str) -> Kept:
        def work(connection: Connection) -> Kept:
            head = connection.execute(
                select(tables.sessions.c.head).where(tables.sessions.c.id == session)
            ).scalar()
            if head is None:
                raise SessionMissing(session[:64])
            found = connection.execute(
                select(tables.messages.c.position, tables.messages.c.body)
                .where(tables.messages.c.session == session)
                .order_by(tables.messages.c.position)
            ).all()
            if [row.position for row in found] != list(range(len(found))):
                raise StateDamaged(f"Session {session!r} lacks messages")
            last = connection.execute(
                select(func.max(tables.events.c.number)).where(tables.events.c.session == session)
            ).scalar()
            return Kept(
                record=record_from_json(_value(head)),
                messages=tuple(message_form.from_json(_value(row.body)) for row in found),
                last_event=int(last or 0),
            )

        return await self._database.read(work)

    async def events(self, session: str, *, after: int, limit: int) -> tuple[Event, ...]:
        def work(connection: Connection) -> tuple[Event, ...]:
            found = connection.execute(
                select(tables.events.c.body)
                .where(tables.events.c.session == session, tables.events.c.number > after)
                .order_by(tables.events.c.number)
                .limit(limit)
            )
            return tuple(event_from_json(_value(row.body)) for row in found)

        return await self._database.read(work)

    async def marks(
        self, session: str, kind: Marked, *, before_turn: int | None = None, limit: int
    ) -> tuple[Event, ...]:
        marks, told = tables.marks.c, tables.events.c

        def work(connection: Connection) -> tuple[Event, ...]:
            wanted = select(told.body).join_from(
                tables.marks,
                tables.events,
                (told.session == marks.session) & (told.number == marks.number),
            )
            wanted = wanted.where(marks.session == session, marks.kind == kind)
            if before_turn is not None:
                wanted = wanted.where(marks.turn < before_turn)
            found = connection.execute(wanted.order_by(marks.number.desc()).limit(limit))
            return tuple(event_from_json(_value(row.body)) for row in found)

        return await self._database.read(work)

    async def delete(self, session: str) -> None:
        def work(connection: Connection) -> None:
            _drop_messages(connection, session, 0)
            _drop_events(connection, session, 0)
            connection.execute(delete(tables.sessions).where(tables.sessions.c.id == session))

        await self._database.run(work)

    async def list(self) -> tuple[SessionRecord, ...]:
        def work(connection: Connection) -> tuple[SessionRecord, ...]:
            found = connection.execute(
                select(tables.sessions.c.head).order_by(
                    tables.sessions.c.created_at, tables.sessions.c.id
                )
            )
            return tuple(record_from_json(_value(row.head)) for row in found)

        return await self._database.read(work)

    async def exists(self, session: str) -> bool:
        def work(connection: Connection) -> bool:
            wanted = select(tables.sessions.c.id).where(tables.sessions.c.id == session)
            return connection.execute(wanted).scalar() is not None

        return await self._database.read(work)

    async def close(self) -> None:
        pass


def _save(connection: Connection, record: SessionRecord) -> None:
    head = _text(record_to_json(record))
    changed = connection.execute(
        update(tables.sessions).where(tables.sessions.c.id == record.id).values(head=head)
    )
    if changed.rowcount == 0:
        row = {"id": record.id, "created_at": record.created_at, "head": head}
        connection.execute(insert(tables.sessions), [row])


def _drop_messages(connection: Connection, session: str, first: int) -> None:
    _drop(connection, tables.messages, session, tables.messages.c.position >= first)


def _drop_events(connection: Connection, session: str, first: int) -> None:
    _drop(connection, tables.marks, session, tables.marks.c.number >= first)
    _drop(connection, tables.events, session, tables.events.c.number >= first)


def _drop(connection: Connection, table: Table, session: str, which: Any) -> None:
    connection.execute(delete(table).where(table.c.session == session, which))


def _message_rows(session: str, messages: Sequence[Message], first: int) -> list[dict[str, Any]]:
    return [
        {"session": session, "position": first + at, "body": _text(message_form.to_json(message))}
        for at, message in enumerate(messages)
    ]


def _text(value: Any) -> str:
    # In ASCII, so that no database stumbles over a NUL or half a character.
    return json.dumps(value, separators=(",", ":"))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise StateDamaged(f"What is kept of a session is no JSON: {error}") from error
