"""Conversations and the words in them, as rows: plain functions of a connection, each part of a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from sqlalchemy import Connection, delete, insert, literal, select, tuple_, update

from crucible.conversations.facts import Conversation, Position
from crucible.conversations.folding import folded, kept_text
from crucible.store.tables import conversations as tables

Role = Literal["user", "assistant"]
_table = tables.conversations.c
_COLUMNS = (
    _table.id,
    _table.user_id,
    _table.title,
    _table.is_pinned,
    _table.model,
    _table.created_at,
    _table.updated_at,
    _table.deleted_at,
)


def add(connection: Connection, new: Conversation) -> None:
    row = {
        "id": new.id,
        "user_id": new.user,
        "title": new.title,
        "folded_title": folded(new.title),
        "is_pinned": new.is_pinned,
        "model": new.model[:300],
        "created_at": new.created_at,
        "updated_at": new.updated_at,
        "deleted_at": new.deleted_at,
    }
    connection.execute(insert(tables.conversations), [row])


def find(connection: Connection, id: str) -> Conversation | None:
    row = connection.execute(select(*_COLUMNS).where(_table.id == id)).one_or_none()
    return None if row is None else _read(row)


def change(connection: Connection, id: str, **values: Any) -> bool:
    """False if there is none."""
    if "title" in values:
        values["folded_title"] = folded(values["title"])
    done = connection.execute(update(tables.conversations).where(_table.id == id).values(**values))
    return done.rowcount > 0


def remove(connection: Connection, id: str) -> None:
    remove_texts(connection, id, 0)
    connection.execute(delete(tables.conversations).where(_table.id == id))


def page(
    connection: Connection, user: str, *, after: Position | None, limit: int, which: Any = None
) -> list[Conversation]:
    """Pinned ones first, then the newest; those that were thrown away are not among them."""
    order = (_table.is_pinned, _table.updated_at, _table.id)
    wanted = select(*_COLUMNS).where(_table.user_id == user, _table.deleted_at.is_(None))
    if which is not None:
        wanted = wanted.where(which)
    if after is not None:
        place = (literal(after.is_pinned), literal(after.updated_at), literal(after.id))
        wanted = wanted.where(tuple_(*order) < tuple_(*place))
    wanted = wanted.order_by(*(column.desc() for column in order)).limit(limit)
    return [_read(row) for row in connection.execute(wanted)]


def thrown_away(connection: Connection, before: float) -> list[Conversation]:
    wanted = select(*_COLUMNS).where(_table.deleted_at.is_not(None), _table.deleted_at <= before)
    return [_read(row) for row in connection.execute(wanted.order_by(_table.deleted_at))]


def all_ids(connection: Connection) -> list[str]:
    return list(connection.execute(select(_table.id)).scalars())


def put_text(connection: Connection, id: str, turn: int, role: Role, text: str) -> None:
    own = tables.texts.c
    connection.execute(
        delete(tables.texts).where(own.conversation == id, own.turn == turn, own.role == role)
    )
    if text.strip():
        kept = kept_text(text)
        row = {
            "conversation": id,
            "turn": turn,
            "role": role,
            "text": kept,
            "folded": folded(kept),
        }
        connection.execute(insert(tables.texts), [row])


def remove_texts(connection: Connection, id: str, from_turn: int) -> None:
    own = tables.texts.c
    connection.execute(delete(tables.texts).where(own.conversation == id, own.turn >= from_turn))


def redact(connection: Connection, user: str, stays: Callable[[str, str], str]) -> None:
    """`stays` is given the conversation and a text, and gives the text as it may stay."""
    own = tables.texts.c
    for row in connection.execute(
        select(_table.id, _table.title).where(_table.user_id == user)
    ).all():
        if (title := stays(row.id, row.title)) != row.title:
            change(connection, row.id, title=title)
        said = select(own.turn, own.role, own.text).where(own.conversation == row.id)
        for one in connection.execute(said).all():
            if (text := stays(row.id, one.text)) != one.text:
                put_text(connection, row.id, one.turn, one.role, text)


def copy_texts(connection: Connection, id: str, other: str, up_to_turn: int) -> None:
    own = tables.texts.c
    chosen = select(literal(other), own.turn, own.role, own.text, own.folded).where(
        own.conversation == id, own.turn <= up_to_turn
    )
    names = ["conversation", "turn", "role", "text", "folded"]
    connection.execute(insert(tables.texts).from_select(names, chosen))


def _read(row: Any) -> Conversation:
    return Conversation(
        id=row.id,
        user=row.user_id,
        title=row.title,
        is_pinned=bool(row.is_pinned),
        model=row.model,
        created_at=row.created_at,
        updated_at=row.updated_at,
        deleted_at=row.deleted_at,
    )
