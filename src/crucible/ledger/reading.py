"""What is recorded, as it is shown: one run, all runs, the entries of one. Plain functions of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, case, func, select

from crucible.errors import RunMissing
from crucible.ledger import rows
from crucible.ledger.canonical import Plain
from crucible.ledger.chain import Entry
from crucible.ledger.steps import Kind
from crucible.store.tables import ledger as tables

_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run with the sums of its entries. `cost_micros` leaves out what nobody knows the price of."""

    id: str
    opened_us: int
    user: str
    facts: Mapping[str, Plain]
    count: int
    last_us: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_micros: int
    models: tuple[str, ...]


def runs(
    connection: Connection, *, user: str | None, before_us: int | None, limit: int
) -> list[RunSummary]:
    query = select(tables.runs).order_by(tables.runs.c.opened_us.desc(), tables.runs.c.id)
    if user is not None:
        query = query.where(tables.runs.c.user == user)
    if before_us is not None:
        query = query.where(tables.runs.c.opened_us < before_us)
    return summaries(connection, query.limit(max(0, min(limit, _MOST))))


def run(connection: Connection, *, run: str) -> RunSummary:
    found = summaries(connection, select(tables.runs).where(tables.runs.c.id == run))
    if not found:
        raise RunMissing(run)
    return found[0]


def entries(
    connection: Connection, *, run: str, after: int = 0, limit: int | None = None
) -> list[Entry]:
    if rows.run_row(connection, run) is None:
        raise RunMissing(run)
    found: list[Entry] = []
    for row in rows.entry_rows(connection, run, after=after):
        if limit is not None and len(found) >= limit:
            break
        found.append(rows.to_entry(row))
    return found


def hash_at(connection: Connection, *, run: str, number: int) -> str | None:
    """Of an entry, or of the opening for 0. None if there is none such."""
    if number:
        return rows.hash_at(connection, run, number)
    row = rows.run_row(connection, run)
    return None if row is None else rows.opening_hash(row)


def summaries(connection: Connection, query: Select[Any]) -> list[RunSummary]:
    found = [rows.by_name(row) for row in connection.execute(query)]
    names = [row["id"] for row in found]
    sums = {row.run: row for row in connection.execute(_sums(names))}
    models: dict[str, list[str]] = {}
    for row in connection.execute(_models(names)):
        models.setdefault(row.run, []).append(row.model)
    return [_summary(row, sums.get(row["id"]), models.get(row["id"], [])) for row in found]


def _sums(names: list[str]) -> Select[Any]:
    columns = tables.entries.c
    numbers = ("tokens_in", "tokens_out", "tokens_cached", "cost_micros")
    return (
        select(
            columns.run,
            func.max(columns.started_us + columns.duration_us).label("last_us"),
            # The entry that ends a turn tells what its steps came to, and is none itself.
            *(
                func.coalesce(
                    func.sum(case((columns.kind != Kind.SESSION, columns[name]))), 0
                ).label(name)
                for name in numbers
            ),
        )
        .where(columns.run.in_(names))
        .group_by(columns.run)
    )


def _models(names: list[str]) -> Select[Any]:
    columns = tables.entries.c
    return (
        select(columns.run, columns.model)
        .where(columns.run.in_(names), columns.model != "")
        .distinct()
        .order_by(columns.run, columns.model)
    )


def _summary(row: Mapping[str, Any], sums: Any, models: list[str]) -> RunSummary:
    opening = rows.to_opening(row)
    return RunSummary(
        id=opening.run,
        opened_us=opening.opened_us,
        user=opening.user,
        facts=opening.facts,
        count=row["count"],
        last_us=opening.opened_us if sums is None else int(sums.last_us),
        tokens_in=0 if sums is None else int(sums.tokens_in),
        tokens_out=0 if sums is None else int(sums.tokens_out),
        tokens_cached=0 if sums is None else int(sums.tokens_cached),
        cost_micros=0 if sums is None else int(sums.cost_micros),
        models=tuple(models),
    )
