"""Whatever is changed in the database, in a content or in a head is found, and the first entry is named."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text
from tests.conftest import Run
from tests.ledger.records import RUN, head_file, problems, recorded, step, verdict

from crucible.errors import LedgerBroken
from crucible.ledger.chain import HEAD_TYPE, hash_entry, head_statement
from crucible.ledger.envelope import pre_authentication
from crucible.ledger.keys import SigningKey, own_key
from crucible.ledger.ledger import Ledger
from crucible.ledger.rows import hashed_fields
from crucible.store.database import Database
from crucible.store.tables import ledger as tables


def _do(ledger: Ledger, *statements: str, run: str = RUN) -> None:
    def work(connection: Connection) -> None:
        for statement in statements:
            connection.execute(text(statement), {"run": run} if ":run" in statement else {})

    ledger.database.do(work)


ENTRIES = "ledger_entries WHERE run = :run"
SET = "UPDATE ledger_entries SET"
OF = "WHERE run = :run AND number"
RUNS = "UPDATE ledger_runs SET"
CHANGES = [
    ([f"{SET} exit_status = 0 {OF} = 3"], ("entry-changed", 3)),
    ([f"{SET} cost_micros = 0 {OF} = 3"], ("entry-changed", 3)),
    ([f"{SET} version = 2 {OF} = 2"], ("entry-changed", 2)),
    ([f"{SET} facts = '{{ }}' {OF} = 1"], ("entry-changed", 1)),
    ([f"{SET} facts = 'nonsense' {OF} = 1"], ("entry-changed", 1)),
    ([f"{SET} signature = 'AAAA' {OF} = 2"], ("entry-unsigned", 2)),
    ([f"{SET} number = 0 {OF} = 1"], ("entry-changed", 1)),
    ([f"{SET} number = 99 {OF} = 2", f"{SET} number = 2 {OF} = 3", f"{SET} number = 3 {OF} = 99"],
     ("entry-changed", 2)),
    ([f"DELETE FROM {ENTRIES} AND number = 2"], ("entry-missing", 2)),
    ([f"DELETE FROM {ENTRIES} AND number = 1"], ("entry-missing", 1)),
    ([f"DELETE FROM {ENTRIES} AND number = 4"], ("truncated", 4)),
    ([f"DELETE FROM {ENTRIES} AND number >= 3"], ("truncated", 3)),
    ([f"DELETE FROM {ENTRIES}"], ("truncated", 1)),
    ([f"DELETE FROM {ENTRIES}", "DELETE FROM ledger_runs WHERE id = :run"], ("truncated", 1)),
    ([f"{RUNS} facts = '{{}}' WHERE id = :run"], ("entry-changed", 1)),
    ([f"{RUNS} \"user\" = 'eve' WHERE id = :run"], ("entry-changed", 1)),
    ([f"{RUNS} count = 3 WHERE id = :run"], ("truncated", 5)),
    ([f"{RUNS} hash = 'ff' WHERE id = :run"], ("run-changed", None)),
    ([f"{RUNS} \"key\" = 'ff' WHERE id = :run"], ("foreign-key", None)),
]  # fmt: skip


async def test_a_changed_database_is_found(ledger: Ledger, run: Run) -> None:
    names = [f"run-{number}" for number in range(len(CHANGES))]
    for name in names:
        await recorded(ledger, name)
    ledger.settle()
    assert verdict(ledger, names[0]).is_whole
    for name, (statements, expected) in zip(names, CHANGES, strict=True):
        _do(ledger, *statements, run=name)
        assert problems(verdict(ledger, name))[0] == expected, statements


async def test_a_run_that_is_cut_where_its_row_agrees_is_found_by_the_head(
    ledger: Ledger, run: Run
) -> None:
    written = await recorded(ledger)
    ledger.settle()
    _do(ledger, "DELETE FROM ledger_entries WHERE number > 2",
        f"UPDATE ledger_runs SET count = 2, hash = '{written[1].hash}'")  # fmt: skip
    assert problems(verdict(ledger)) == [("truncated", 3)]


async def test_nothing_is_added_to_a_run_that_has_lost_something(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    """What was added would take the place of what is gone."""
    written = await recorded(ledger)
    ledger.settle()
    _do(ledger, "DELETE FROM ledger_entries WHERE number > 2",
        f"UPDATE ledger_runs SET count = 2, hash = '{written[1].hash}'")  # fmt: skip
    later = Ledger(tmp_path / "home", ledger.database)
    with pytest.raises(LedgerBroken, match="entry 4"):
        await later.append(RUN, step())
    _do(ledger, "DELETE FROM ledger_entries", "DELETE FROM ledger_runs")
    with pytest.raises(LedgerBroken, match="4 entries were signed"):
        await later.open_run(RUN)
    head_file(tmp_path / "home").unlink()
    await later.open_run(RUN)
    later.close()


async def test_a_chain_that_was_made_anew_without_the_key_is_found(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    """Whoever can write to the database can hash, but cannot sign; the first entry they changed is named."""
    await recorded(ledger)
    ledger.settle()
    _rewrite(ledger, 2, lambda fields: {**fields, "exit_status": 0}, own_key(tmp_path / "eve"))
    assert problems(verdict(ledger))[0] == ("entry-unsigned", 2)


async def test_a_chain_that_was_made_anew_with_the_key_is_found_by_the_head(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    await recorded(ledger)
    ledger.settle()
    _rewrite(ledger, 2, lambda fields: {**fields, "exit_status": 0}, ledger.key)
    assert problems(verdict(ledger)) == [("entry-changed", 4)]


def _rewrite(
    ledger: Ledger,
    number: int,
    change: Callable[[dict[str, object]], dict[str, object]],
    key: SigningKey,
) -> None:
    def work(connection: Connection) -> None:
        last = ""
        rows = connection.execute(tables.entries.select().order_by(tables.entries.c.number)).all()
        for row in rows:
            if row.number >= number:
                fields = hashed_fields(dict(row._mapping))
                fields = change(fields) if row.number == number else {**fields, "previous": last}
                last = hash_entry(fields)
                message = pre_authentication(HEAD_TYPE, head_statement(RUN, row.number, last))
                signature = base64.b64encode(key.sign(message)).decode()
                connection.execute(
                    tables.entries.update()
                    .where(tables.entries.c.number == row.number)
                    .values(exit_status=fields["exit_status"], previous=fields["previous"],
                            hash=last, signature=signature)
                )  # fmt: skip
        connection.execute(tables.runs.update().values(hash=last))

    ledger.database.do(work)


async def test_an_entry_of_another_run_is_found(ledger: Ledger, run: Run) -> None:
    await recorded(ledger)
    await recorded(ledger, "run-2")
    ledger.settle()
    _do(ledger, f"DELETE FROM ledger_entries WHERE run = '{RUN}' AND number = 2",
        f"UPDATE ledger_entries SET run = '{RUN}' WHERE run = 'run-2' AND number = 2")  # fmt: skip
    assert problems(verdict(ledger))[0] == ("entry-changed", 2)


async def test_contents_that_are_changed_exchanged_or_gone_are_found(
    ledger: Ledger, run: Run
) -> None:
    written = await recorded(ledger)
    paths = [ledger.contents.path(RUN, str(written[number].output)) for number in (0, 1)]
    first, second = (path.read_bytes() for path in paths)
    for changed in (second, first[:-1], first + b"x", b"", first.replace(b"output", b"Output")):
        paths[0].write_bytes(changed)
        assert problems(verdict(ledger)) == [("content-changed", 1)]
    paths[0].unlink()
    assert problems(verdict(ledger)) == [("content-missing", 1)]
    paths[0].write_bytes(second)
    with pytest.raises(LedgerBroken):
        await ledger.blob(RUN, str(written[0].output))


async def test_a_head_that_is_gone_or_of_another_is_found(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    await recorded(ledger)
    await recorded(ledger, "run-2")
    ledger.settle()
    path, other = head_file(tmp_path / "home"), head_file(tmp_path / "home", "run-2")
    data = path.read_bytes()
    path.write_bytes(other.read_bytes())
    assert problems(verdict(ledger)) == [("head-changed", None)]
    path.write_bytes(data.replace(ledger.key.public.id.encode(), b"0" * 64))
    assert problems(verdict(ledger)) == [("head-changed", None)]
    path.unlink()
    assert problems(verdict(ledger)) == [("head-missing", None)]


class Whole:
    """A run on SQLite that is whole before each example and made whole after it."""

    def __init__(self, home: Path, ledger: Ledger, raw: sqlite3.Connection) -> None:
        self.home, self.ledger, self.raw = home, ledger, raw


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Iterator[Whole]:
    home = tmp_path_factory.mktemp("home")
    database = Database(f"sqlite:///{home / 'crucible.db'}")
    ledger = Ledger(home, database)
    run(recorded(ledger))
    ledger.settle()
    raw = sqlite3.connect(home / "crucible.db", isolation_level=None, timeout=60)
    yield Whole(home, ledger, raw)
    raw.close()
    ledger.close()
    database.close()


ENTRY_COLUMNS = [column.name for column in tables.entries.c]
RUN_COLUMNS = [column.name for column in tables.runs.c]
CELLS = (
    st.none()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "0", "1", "run-1", "bash", "{}", '{"tool":"bash"}', "AAAA", "f" * 64])
    | st.text(max_size=8)
    | st.binary(max_size=8)
)


@settings(max_examples=120)
@given(
    st.sampled_from([("ledger_entries", name) for name in ENTRY_COLUMNS]
                    + [("ledger_runs", name) for name in RUN_COLUMNS]),
    st.integers(1, 4),
    CELLS,
)  # fmt: skip
def test_any_other_value_in_any_cell_is_found(
    whole: Whole, cell: tuple[str, str], number: int, value: object
) -> None:
    table, column = cell
    where = f"WHERE number = {number}" if table == "ledger_entries" else ""
    with whole.raw as raw:
        before = raw.execute(
            f'SELECT "{column}", typeof("{column}") FROM {table} {where}'
        ).fetchone()
        rowid = raw.execute(f"SELECT rowid FROM {table} {where}").fetchone()[0]
        try:
            raw.execute(f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?', (value, rowid))
        except (sqlite3.IntegrityError, UnicodeEncodeError):
            return
        after = raw.execute(
            f'SELECT "{column}", typeof("{column}") FROM {table} WHERE rowid = ?', (rowid,)
        ).fetchone()
        try:
            assert verdict(whole.ledger).is_whole is (after == before)
        except LedgerBroken:
            assert after != before
        finally:
            raw.execute(f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?', (before[0], rowid))


@settings(max_examples=30)
@given(st.sets(st.integers(1, 4), min_size=1), st.permutations([1, 2, 3, 4]))
def test_any_entries_removed_or_reordered_are_found(
    whole: Whole, removed: set[int], order: list[int]
) -> None:
    rows = whole.raw.execute("SELECT * FROM ledger_entries ORDER BY number").fetchall()
    marks = ",".join("?" * len(rows[0]))
    place = ENTRY_COLUMNS.index("number")
    try:
        whole.raw.execute(f"DELETE FROM ledger_entries WHERE number IN ({str(removed)[1:-1]})")
        found = verdict(whole.ledger)
        assert not found.is_whole
        assert found.findings[0].entry == min(removed)
        whole.raw.execute("DELETE FROM ledger_entries")
        for row, number in zip(rows, order, strict=True):
            moved = [*row[:place], number, *row[place + 1 :]]
            whole.raw.execute(f"INSERT INTO ledger_entries VALUES ({marks})", moved)
        found = verdict(whole.ledger)
        wrong = [
            number for number, there in zip([1, 2, 3, 4], order, strict=True) if number != there
        ]
        assert found.is_whole is not bool(wrong)
        assert not wrong or found.findings[0].entry == min(wrong)
    finally:
        whole.raw.execute("DELETE FROM ledger_entries")
        whole.raw.executemany(f"INSERT INTO ledger_entries VALUES ({marks})", rows)


@settings(max_examples=80)
@given(st.data())
def test_any_changed_byte_of_a_head_or_a_content_is_found(
    whole: Whole, data: st.DataObject
) -> None:
    blobs = sorted((whole.home / "ledger" / "blobs" / RUN).iterdir())
    path = data.draw(st.sampled_from([head_file(whole.home), *blobs]))
    before = path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    flipped = bytearray(before)
    flipped[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.sampled_from([bytes(flipped), before[:place], before + b"\n"]))
    try:
        path.write_bytes(cut)
        assert not verdict(whole.ledger).is_whole
    finally:
        path.write_bytes(before)
