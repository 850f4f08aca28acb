"""Runs and entries in the database: what is written, and what is read back, trusted or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from crucible.errors import LedgerBroken, RunMissing
from crucible.ledger.canonical import NotCanonical, Plain, canonical, parse
from crucible.ledger.chain import HASHED, VERSION, Entry, Opening, hash_opening
from crucible.store.tables import ledger as tables

_PAGE = 500
# Made once: every append uses them.
_ADD = insert(tables.entries)
_LOCK = (
    select(tables.runs.c.count, tables.runs.c.hash, tables.runs.c.key)
    .where(tables.runs.c.id == bindparam("run"))
    .with_for_update()
)
_END = (
    update(tables.runs)
    .where(tables.runs.c.id == bindparam("run"))
    .values(count=bindparam("number"), hash=bindparam("last"))
)


def add_run(connection: Connection, opening: Opening, first: str) -> None:
    connection.execute(
        insert(tables.runs),
        {
            "id": opening.run,
            "version": opening.version,
            "opened_us": opening.opened_us,
            "user": opening.user,
            "facts": canonical(dict(opening.facts)).decode(),
            "key": opening.key,
            "count": 0,
            "hash": first,
        },
    )


def lock_run(connection: Connection, run: str) -> tuple[int, str, str]:
    """Count, last hash and key; nobody else adds to this run before the transaction ends."""
    row = connection.execute(_LOCK, {"run": run}).one_or_none()
    if row is None:
        raise RunMissing(run)
    count, last, key = row
    return count, last, key


def add_entries(connection: Connection, entries: list[Entry]) -> None:
    """To the run that was locked."""
    last = entries[-1]
    values = [_values(entry) for entry in entries]
    connection.execute(_ADD, values if len(values) > 1 else values[0])
    connection.execute(_END, {"run": last.run, "number": last.number, "last": last.hash})


def hash_at(connection: Connection, run: str, number: int) -> str | None:
    columns = tables.entries.c
    query = select(columns.hash).where(columns.run == run, columns.number == number)
    return connection.execute(query).scalar_one_or_none()


def run_row(connection: Connection, run: str) -> Mapping[str, Any] | None:
    """As the database has it, unchecked."""
    query = select(tables.runs).where(tables.runs.c.id == run)
    row = connection.execute(query).one_or_none()
    return None if row is None else by_name(row)


def entry_rows(
    connection: Connection, run: str, *, after: int | None = None
) -> Iterator[Mapping[str, Any]]:
    """As the database has them, by their numbers, unchecked; a page at a time."""
    columns = tables.entries.c
    query = select(tables.entries).where(columns.run == run).order_by(columns.number).limit(_PAGE)
    bound = after
    while True:
        page = query if bound is None else query.where(columns.number > bound)
        rows = connection.execute(page).all()
        yield from map(by_name, rows)
        if len(rows) < _PAGE:
            return
        bound = rows[-1].number


def by_name(row: Row[Any]) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", row._mapping)


def hashed_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is under the hash of an entry, as a row has it. NotCanonical if its facts were never written so."""
    fields = {name: row[name] for name in HASHED}
    fields["facts"] = parse(row["facts"]) if isinstance(row["facts"], str) else row["facts"]
    return {"v": row["version"], **fields}


def opened_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the opening of a run."""
    facts = parse(row["facts"]) if isinstance(row["facts"], str) else row["facts"]
    return {
        "v": row["version"],
        "run": row["id"],
        "opened_us": row["opened_us"],
        "user": row["user"],
        "facts": facts,
        "key": row["key"],
    }


def opening_hash(row: Mapping[str, Any]) -> str | None:
    """What the first entry must be bound to; None if the row is not what we write."""
    try:
        return hash_opening(opened_fields(row))
    except NotCanonical:
        return None


def to_entry(row: Mapping[str, Any]) -> Entry:
    """For reading; whether it is what was written, `verify` says."""
    return Entry(**{**row, "facts": _facts(row["run"], row["facts"])})


def to_opening(row: Mapping[str, Any]) -> Opening:
    return Opening(
        run=row["id"],
        opened_us=row["opened_us"],
        user=row["user"],
        facts=_facts(row["id"], row["facts"]),
        key=row["key"],
        version=row["version"],
    )


def _facts(run: str, text: str) -> dict[str, Plain]:
    try:
        found = parse(text)
    except NotCanonical:
        found = None
    if not isinstance(found, dict):
        raise LedgerBroken(run, "the facts of an entry cannot be read")
    return found


def _values(entry: Entry) -> dict[str, Any]:
    values = {name: getattr(entry, name) for name in HASHED}
    facts = canonical(cast("dict[str, Plain]", entry.facts)).decode()
    own = {"version": VERSION, "hash": entry.hash, "signature": entry.signature}
    return {**values, **own, "facts": facts}
