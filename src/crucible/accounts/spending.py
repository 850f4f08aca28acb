"""The sums behind budgets, as plain functions of a connection: what was spent, what is reserved, and moving the one
into the other. Each row is one scope on one day, so that a month and all time are sums."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Table, bindparam, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from crucible.accounts.amounts import Amount, Measure
from crucible.accounts.periods import Period, first_day
from crucible.store.tables.accounts import reservations, scopes, spending

KEPT_LOST_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    spent: Amount
    reserved: Amount
    overshoots: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A reservation as it is written down."""

    id: str
    scopes: tuple[str, ...]
    day: str
    amount: Amount
    is_lost: bool = False


NOTHING: Final = Sums(spent=Amount(), reserved=Amount())

# Written once: to put a statement together takes SQLAlchemy longer than to run it.
_SUMS: Final = (
    select(
        spending.c.scope,
        func.sum(spending.c.overshoots).label("overshoots"),
        *(
            func.sum(spending.c[f"{measure}_{what}"]).label(f"{measure}_{what}")
            for measure in Measure
            for what in ("spent", "reserved")
        ),
    )
    .where(spending.c.scope.in_(bindparam("charged", expanding=True)))
    .where(spending.c.day >= bindparam("first"))
    .group_by(spending.c.scope)
)
_COUNTS: Final = tuple(column.name for column in spending.c if column.name not in ("scope", "day"))
_FIND: Final = (
    select(reservations).where(reservations.c.id == bindparam("wanted")).with_for_update()
)
_INSERT: Final = reservations.insert()
_DELETE: Final = delete(reservations).where(reservations.c.id == bindparam("wanted"))


def take_turns(connection: Connection, charged: Sequence[str]) -> None:
    """Until the transaction ends nobody else reserves for these scopes, whichever of them they share."""
    # One by one and in order, so that two who share scopes cannot wait for each other.
    for scope in sorted(charged):
        row = {"scope": scope, "touched_at": time.time()}
        connection.execute(_touching(connection.dialect.name), row)


def sums_of(
    connection: Connection, charged: Sequence[str], period: Period, day: str
) -> dict[str, Sums]:
    """Within the period that `day` is in."""
    asked = {"charged": list(charged), "first": first_day(period, day)}
    return {row["scope"]: _sums(row) for row in connection.execute(_SUMS, asked).mappings()}


def hold(connection: Connection, held: Held, owner: str, expires_at: float) -> None:
    _move(connection, held, reserved=held.amount.as_row(), spent={})
    connection.execute(
        _INSERT,
        {
            "id": held.id,
            "state": "open",
            "scopes": json.dumps(held.scopes),
            "day": held.day,
            **held.amount.as_row(),
            "owner": owner,
            "created_at": time.time(),
            "expires_at": expires_at,
        },
    )


def settle(connection: Connection, id: str, actual: Amount) -> bool | None:
    """Whether it was more than what was reserved; None if it was settled before."""
    held = find(connection, id)
    if held is None:
        return None
    reserved = held.amount.as_row()
    spent = actual.as_row()
    is_over = any(spent[name] > reserved[name] for name in reserved)
    if held.is_lost:
        spent = {name: spent[name] - reserved[name] for name in reserved}
        reserved = dict.fromkeys(reserved, 0)
    freed = {name: -amount for name, amount in reserved.items()}
    _move(connection, held, reserved=freed, spent=spent, overshoots=int(is_over))
    connection.execute(_DELETE, {"wanted": id})
    return is_over


def lose(connection: Connection, id: str) -> bool:
    """Nobody will settle it: all of it counts as spent, until somebody does."""
    held = find(connection, id)
    if held is None or held.is_lost:
        return False
    amounts = held.amount.as_row()
    freed = {name: -amount for name, amount in amounts.items()}
    _move(connection, held, reserved=freed, spent=amounts)
    connection.execute(update(reservations).where(reservations.c.id == id).values(state="lost"))
    return True


def find(connection: Connection, id: str) -> Held | None:
    row = connection.execute(_FIND, {"wanted": id}).mappings().first()
    if row is None:
        return None
    return Held(
        id=row["id"],
        scopes=tuple(json.loads(row["scopes"])),
        day=row["day"],
        amount=Amount.of_row({str(measure): row[measure] for measure in Measure}),
        is_lost=row["state"] == "lost",
    )


def open_reservations(connection: Connection) -> list[tuple[str, str, float]]:
    """Of each, its id, its owner and when it expires."""
    query = select(reservations).where(reservations.c.state == "open")
    return [(row.id, row.owner, row.expires_at) for row in connection.execute(query)]


def forget_lost(connection: Connection, now: float) -> None:
    connection.execute(
        delete(reservations)
        .where(reservations.c.state == "lost")
        .where(reservations.c.expires_at < now - KEPT_LOST_S)
    )


def charged_scopes(connection: Connection) -> list[str]:
    return list(connection.execute(select(scopes.c.scope).order_by(scopes.c.scope)).scalars())


def _move(
    connection: Connection,
    held: Held,
    *,
    reserved: Mapping[str, int],
    spent: Mapping[str, int],
    overshoots: int = 0,
) -> None:
    """Adds to the rows of its scopes, in one statement for each: nobody sees it halfway."""
    changes = dict.fromkeys(_COUNTS, 0)
    changes |= {f"{name}_reserved": amount for name, amount in reserved.items()}
    changes |= {f"{name}_spent": amount for name, amount in spent.items()}
    changes["overshoots"] = overshoots
    for scope in sorted(held.scopes):
        row = {"scope": scope, "day": held.day, **changes}
        connection.execute(_adding(connection.dialect.name), row)


@cache
def _touching(dialect: str) -> Any:
    insert = _insert(dialect, scopes)
    return insert.on_conflict_do_update(
        index_elements=[scopes.c.scope], set_={"touched_at": insert.excluded.touched_at}
    )


@cache
def _adding(dialect: str) -> Any:
    insert = _insert(dialect, spending)
    return insert.on_conflict_do_update(
        index_elements=[spending.c.scope, spending.c.day],
        set_={name: spending.c[name] + insert.excluded[name] for name in _COUNTS},
    )


def _insert(dialect: str, table: Table) -> Any:
    """Both databases have the same upsert, and SQLAlchemy two names for it."""
    return (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)


def _sums(row: RowMapping) -> Sums:
    def amount(what: str) -> Amount:
        return Amount.of_row({str(name): max(0, int(row[f"{name}_{what}"])) for name in Measure})

    return Sums(
        spent=amount("spent"), reserved=amount("reserved"), overshoots=int(row["overshoots"])
    )
