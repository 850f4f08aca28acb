"""What a user's runs came to, by day and by model. The database adds up: nobody loads entries to count them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, String, case, func, literal, select

from crucible.ledger.steps import Kind
from crucible.store.tables import ledger as tables

By = Literal["day", "model", "day-model"]
DAY_US = 86_400_000_000
MOST_TOTALS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Of one day (in UTC), one model, or both; "" is what it was not asked by.

    `cost_micros` leaves out the `unpriced` calls, of which nobody knows the price. `duration_us` adds up the steps,
    which may have been under way at once.
    """

    day: str
    model: str
    runs: int
    steps: int
    model_calls: int
    tool_calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_micros: int
    unpriced: int
    duration_us: int


def totals(
    connection: Connection,
    *,
    user: str,
    by: By,
    from_us: int | None = None,
    to_us: int | None = None,
    model: str = "",
) -> list[Total]:
    """The first day first, then the models by name. By model, steps that called none are left out.

    At most `MOST_TOTALS`: the latest days. What begins and ends a session or a turn is no step.
    """
    entries, runs = tables.entries.c, tables.runs.c
    day: ColumnElement[Any] = entries.started_us // DAY_US if by != "model" else literal(0)
    named: ColumnElement[Any] = entries.model if by != "day" else literal("", String)
    query = (
        select(
            day.label("day"),
            named.label("model"),
            func.count(entries.run.distinct()).label("runs"),
            func.count().label("steps"),
            _count(entries.kind == Kind.MODEL_CALL).label("model_calls"),
            _count(entries.kind == Kind.TOOL_CALL).label("tool_calls"),
            _count(entries.cost_micros.is_(None)).label("unpriced"),
            *(func.coalesce(func.sum(entries[name]), 0).label(name) for name in _SUMMED),
        )
        .select_from(tables.entries.join(tables.runs, runs.id == entries.run))
        .where(runs.user == user, entries.kind != Kind.SESSION)
    )
    if by != "day":
        query = query.where(entries.model != "")
    if model:
        query = query.where(entries.model == model)
    if from_us is not None:
        query = query.where(entries.started_us >= from_us)
    if to_us is not None:
        # A run that was opened later has nothing from before.
        query = query.where(entries.started_us < to_us, runs.opened_us < to_us)
    keys = {"day": [day], "model": [named], "day-model": [day, named]}[by]
    grouped = query.group_by(*keys).order_by(keys[0].desc()).limit(MOST_TOTALS)
    found = [_total(row, by) for row in connection.execute(grouped).mappings()]
    return sorted(found, key=lambda total: (total.day, total.model))


_SUMMED = ("tokens_in", "tokens_out", "tokens_cached", "cost_micros", "duration_us")


def _count(claim: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(case((claim, 1), else_=0)), 0)


def _total(row: Any, by: By) -> Total:
    counts = ("runs", "steps", "model_calls", "tool_calls", "unpriced", *_SUMMED)
    moment = time.gmtime(int(row["day"]) * DAY_US // 1_000_000)
    return Total(
        day="" if by == "model" else time.strftime("%Y-%m-%d", moment),
        model=row["model"],
        **{name: int(row[name]) for name in counts},
    )
