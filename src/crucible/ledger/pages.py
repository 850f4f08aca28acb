"""Long lists of runs and entries, a page at a time and by key: what comes meanwhile shifts nothing."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, exists, or_, select

from crucible.ledger import rows
from crucible.ledger.chain import Entry
from crucible.ledger.reading import RunSummary, summaries
from crucible.store.tables import ledger as tables


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsWanted:
    """Of one user, opened from `from_us` on and before `to_us`; `only` and `without` are names of runs."""

    user: str
    from_us: int | None = None
    to_us: int | None = None
    model: str = ""
    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()


def run_page(
    connection: Connection, *, wanted: RunsWanted, after: tuple[int, str] | None, limit: int
) -> list[RunSummary]:
    """The latest first; `after` is the moment and the name of the last one that was seen."""
    columns = tables.runs.c
    query = select(tables.runs).where(columns.user == wanted.user)
    if wanted.from_us is not None:
        query = query.where(columns.opened_us >= wanted.from_us)
    if wanted.to_us is not None:
        query = query.where(columns.opened_us < wanted.to_us)
    if wanted.model:
        query = query.where(
            exists().where(
                tables.entries.c.run == columns.id, tables.entries.c.model == wanted.model
            )
        )
    if wanted.only is not None:
        query = query.where(columns.id.in_(sorted(wanted.only)))
    if wanted.without:
        query = query.where(columns.id.not_in(sorted(wanted.without)))
    if after is not None:
        moment, name = after
        earlier = and_(columns.opened_us == moment, columns.id < name)
        query = query.where(or_(columns.opened_us < moment, earlier))
    latest = query.order_by(columns.opened_us.desc(), columns.id.desc())
    return summaries(connection, latest.limit(limit))


def entry_page(
    connection: Connection, *, run: str, after: int, kind: str, limit: int
) -> list[Entry]:
    """In their order; of every kind without one. Whether there is such a run is for who asks to know."""
    columns = tables.entries.c
    query = select(tables.entries).where(columns.run == run, columns.number > after)
    if kind:
        query = query.where(columns.kind == kind)
    found = connection.execute(query.order_by(columns.number).limit(limit))
    return [rows.to_entry(rows.by_name(row)) for row in found]


def owner_of(connection: Connection, *, run: str) -> str | None:
    """Whose it is; None if there is none such."""
    query = select(tables.runs.c.user).where(tables.runs.c.id == run)
    return connection.execute(query).scalar_one_or_none()
