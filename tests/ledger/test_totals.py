"""Runs and entries in pages, and what they come to, on both kinds of database."""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlalchemy import Connection, event, text
from tests.conftest import Run

from crucible.ledger.ledger import Ledger
from crucible.ledger.pages import RunsWanted, entry_page, owner_of, run_page
from crucible.ledger.steps import Kind, Step
from crucible.ledger.totals import DAY_US, totals


async def _fill(ledger: Ledger) -> None:
    for run, user in (("a", "ada"), ("b", "ada"), ("c", "bob")):
        await ledger.open_run(run, user=user)
        for number, kind, model in (
            (1, Kind.MODEL_CALL, "p:one"),
            (2, Kind.TOOL_CALL, ""),
            (3, Kind.SESSION, "p:one"),
        ):
            await ledger.append(
                run,
                Step(kind=kind, started_us=number * DAY_US, tokens_in=10, cost_micros=5, model=model),
            )  # fmt: skip


async def test_what_ends_a_turn_is_not_counted_again(ledger: Ledger, run: Run) -> None:
    await _fill(ledger)
    summary = await ledger.run("a")
    assert (summary.count, summary.tokens_in, summary.cost_micros) == (3, 20, 10)
    assert summary.last_us == 3 * DAY_US
    days = ledger.database.look(partial(totals, user="ada", by="day"))
    assert [(one.day, one.model, one.runs, one.steps, one.tokens_in) for one in days] == [
        ("1970-01-02", "", 2, 2, 20),
        ("1970-01-03", "", 2, 2, 20),
    ]
    models = ledger.database.look(partial(totals, user="ada", by="model"))
    assert [(one.day, one.model, one.steps, one.cost_micros) for one in models] == [
        ("", "p:one", 2, 10)
    ]
    both = ledger.database.look(partial(totals, user="bob", by="day-model"))
    assert [(one.day, one.model, one.model_calls) for one in both] == [("1970-01-02", "p:one", 1)]
    late = partial(totals, user="ada", by="day", from_us=2 * DAY_US, model="p:one")
    assert ledger.database.look(late) == []


async def test_sums_are_made_without_reading_the_entries(ledger: Ledger, run: Run) -> None:
    """They are wide: what is added up of them lies beside them."""
    await _fill(ledger)
    plans: list[str] = []

    def explained(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            # It would read a handful of rows one after the other.
            connection.execute(text("SET LOCAL enable_seqscan = off"))
            connection.execute(text("SET LOCAL enable_bitmapscan = off"))
            explain = "EXPLAIN "
        else:
            explain = "EXPLAIN QUERY PLAN "

        def keep(_: object, cursor: Any, statement: str, values: Any, *rest: object) -> None:
            if statement.lstrip().startswith("SELECT"):
                cursor.execute(explain + statement, values)
                plans.append(str(cursor.fetchall()))

        event.listen(connection, "before_cursor_execute", keep)
        totals(connection, user="ada", by="day-model", from_us=DAY_US)

    ledger.database.look(explained)
    (plan,) = plans
    assert "ix_ledger_entries_totals" in plan
    if ledger.database.place.startswith("sqlite"):
        assert "COVERING INDEX ix_ledger_entries_totals (run=? AND started_us>?)" in plan


async def test_pages_hold_what_is_wanted_of_one_user(ledger: Ledger, run: Run) -> None:
    await _fill(ledger)
    look = ledger.database.look
    found = look(partial(run_page, wanted=RunsWanted(user="ada"), after=None, limit=1))
    assert [one.id for one in found] == ["b"]
    after = (found[0].opened_us, found[0].id)
    rest = look(partial(run_page, wanted=RunsWanted(user="ada"), after=after, limit=9))
    assert [one.id for one in rest] == ["a"]
    for wanted, names in (
        (RunsWanted(user="ada", only=frozenset({"a", "c"})), ["a"]),
        (RunsWanted(user="ada", only=frozenset()), []),
        (RunsWanted(user="ada", without=frozenset({"a"})), ["b"]),
        (RunsWanted(user="ada", model="p:one"), ["b", "a"]),
        (RunsWanted(user="ada", model="p:none"), []),
        (RunsWanted(user="ada", to_us=1), []),
    ):
        page = look(partial(run_page, wanted=wanted, after=None, limit=9))
        assert [one.id for one in page] == names, wanted
    entries = look(partial(entry_page, run="a", after=1, kind="", limit=9))
    assert [one.number for one in entries] == [2, 3]
    tools = look(partial(entry_page, run="a", after=0, kind="tool-call", limit=9))
    assert [one.number for one in tools] == [2]
    assert look(partial(owner_of, run="c")) == "bob"
    assert look(partial(owner_of, run="none")) is None
