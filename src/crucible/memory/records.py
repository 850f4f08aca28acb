"""Facts as rows: plain functions of a connection, each part of somebody's transaction."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, or_, select, text, update

from crucible.memory.facts import Fact, Source
from crucible.store.tables.memory import memory_facts as facts
from crucible.store.tables.memory import memory_silences as silences
from crucible.store.tables.memory import memory_users as users

# Both databases know it, and either way the row is ours until the transaction ends.
_RAISE = text(
    "INSERT INTO memory_users (user_id, is_enabled, generation, erased) VALUES (:user, :on, 1, 0) "
    "ON CONFLICT (user_id) DO UPDATE SET generation = memory_users.generation + 1 RETURNING generation"
)
_SHOWN = [column for column in facts.c if column.name not in ("vector", "vector_model")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a user's facts have come. `erased` is when some last vanished without a trace."""

    is_enabled: bool
    generation: int
    erased: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A fact with its vector, which is None where it has none of this model."""

    fact: Fact
    vector: bytes | None


def standing(connection: Connection, user: str) -> Standing:
    row = connection.execute(select(users).where(users.c.user_id == user)).mappings().first()
    if row is None:
        return Standing(is_enabled=True, generation=0, erased=0)
    return Standing(
        is_enabled=row["is_enabled"], generation=row["generation"], erased=row["erased"]
    )


def begin_change(connection: Connection, user: str) -> int:
    """Keeps other writers of this user away until the transaction ends; the number of this change."""
    return int(connection.execute(_RAISE, {"user": user, "on": True}).scalar_one())


def is_silent(connection: Connection, user: str, session: str) -> bool:
    if not standing(connection, user).is_enabled:
        return True
    found = select(silences).where(silences.c.user_id == user, silences.c.session == session)
    return bool(session) and connection.execute(found).first() is not None


def find(connection: Connection, user: str, fact: str) -> Fact | None:
    chosen = select(*_SHOWN).where(facts.c.user_id == user, facts.c.id == fact)
    row = connection.execute(chosen).mappings().first()
    return as_fact(row) if row else None


def read_all(connection: Connection, user: str, states: Sequence[str]) -> list[Fact]:
    chosen = select(*_SHOWN).where(facts.c.user_id == user, facts.c.state.in_(states))
    rows = connection.execute(chosen.order_by(facts.c.created_at, facts.c.id)).mappings()
    return [as_fact(row) for row in rows]


def rivals(
    connection: Connection, user: str, *, text: str, attribute: str, model: str
) -> list[Stored]:
    """The active facts that may say the same as a text, or be replaced by it."""
    family = attribute.partition(":")[0]
    alike = [facts.c.attribute == attribute, func.lower(facts.c.text) == text.lower()]
    if family:
        alike.append(facts.c.attribute.startswith(f"{family}:", autoescape=True))
    chosen = select(facts).where(facts.c.user_id == user, facts.c.state == "active", or_(*alike))
    return [_stored(row, model) for row in connection.execute(chosen).mappings()]


def changed_since(connection: Connection, user: str, generation: int, model: str) -> list[Stored]:
    chosen = select(facts).where(facts.c.user_id == user, facts.c.generation > generation)
    return [_stored(row, model) for row in connection.execute(chosen).mappings()]


def add(
    connection: Connection, fact: Fact, *, vector: bytes | None, model: str, generation: int
) -> None:
    connection.execute(
        insert(facts).values(
            id=fact.id,
            user_id=fact.user,
            kind=fact.kind,
            text=fact.text,
            attribute=fact.attribute,
            session=fact.source.session,
            turn=fact.source.turn,
            quote=fact.source.quote,
            confidence=fact.confidence,
            created_at=fact.created_at,
            updated_at=fact.updated_at,
            recalled_at=fact.recalled_at,
            recalls=fact.recalls,
            expires_at=fact.expires_at,
            is_pinned=fact.is_pinned,
            state=fact.state,
            superseded_by=fact.superseded_by,
            blobs=list(fact.blobs),
            vector=vector,
            vector_model=model if vector else "",
            generation=generation,
        )
    )


def change(
    connection: Connection, fact: str, values: Mapping[str, object], generation: int
) -> None:
    done = update(facts).where(facts.c.id == fact)
    connection.execute(done.values(**values, generation=generation))


def mark_recalled(connection: Connection, ids: Iterable[str], now: float) -> None:
    """No change of what is known: the generation stays."""
    seen = update(facts).where(facts.c.id.in_(list(ids)))
    connection.execute(seen.values(recalled_at=now, recalls=facts.c.recalls + 1))


def attach_blob(connection: Connection, fact: str, blob: str) -> bool:
    """False when it was forgotten meanwhile."""
    chosen = select(facts.c.blobs).where(facts.c.id == fact).with_for_update()
    blobs = connection.execute(chosen).scalar_one_or_none()
    if blobs is None:
        return False
    connection.execute(update(facts).where(facts.c.id == fact).values(blobs=[*blobs, blob]))
    return True


def erase(connection: Connection, user: str, ids: Sequence[str], generation: int) -> None:
    connection.execute(delete(facts).where(facts.c.user_id == user, facts.c.id.in_(ids)))
    connection.execute(update(users).where(users.c.user_id == user).values(erased=generation))


def set_enabled(connection: Connection, user: str, *, is_enabled: bool) -> None:
    begin_change(connection, user)
    connection.execute(update(users).where(users.c.user_id == user).values(is_enabled=is_enabled))


def set_silent(connection: Connection, user: str, session: str, *, is_silent: bool) -> None:
    begin_change(connection, user)
    connection.execute(
        delete(silences).where(silences.c.user_id == user, silences.c.session == session)
    )
    if is_silent:
        connection.execute(insert(silences).values(user_id=user, session=session))


def pack(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


def as_fact(row: RowMapping) -> Fact:
    values: dict[str, Any] = dict(row)
    return Fact(
        id=values["id"],
        user=values["user_id"],
        kind=values["kind"],
        text=values["text"],
        attribute=values["attribute"],
        source=Source(session=values["session"], turn=values["turn"], quote=values["quote"]),
        confidence=values["confidence"],
        created_at=values["created_at"],
        updated_at=values["updated_at"],
        recalled_at=values["recalled_at"],
        recalls=values["recalls"],
        expires_at=values["expires_at"],
        is_pinned=values["is_pinned"],
        state=values["state"],
        superseded_by=values["superseded_by"],
        blobs=tuple(values["blobs"]),
    )


def _stored(row: RowMapping, model: str) -> Stored:
    is_of_model = bool(model) and row["vector_model"] == model
    return Stored(fact=as_fact(row), vector=row["vector"] if is_of_model else None)
