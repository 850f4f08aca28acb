"""A transaction is whole or nothing, on both kinds of database, from threads and from processes."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from tests.conftest import Run

from crucible.errors import DatabaseFailed
from crucible.store.database import Database


@pytest.fixture
def counters(database: Database) -> Database:
    database.do(_make)
    return database


def _make(connection: Connection) -> None:
    connection.execute(text("CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER)"))
    connection.execute(text("INSERT INTO counters VALUES ('a', 0)"))


def _value(connection: Connection) -> int:
    return int(connection.execute(text("SELECT value FROM counters")).scalar_one())


def _increase(connection: Connection) -> None:
    lock = " FOR UPDATE" if connection.dialect.name == "postgresql" else ""
    value = connection.execute(text(f"SELECT value FROM counters{lock}")).scalar_one()
    connection.execute(text("UPDATE counters SET value = :value"), {"value": value + 1})


def test_what_raises_leaves_nothing(counters: Database) -> None:
    def work(connection: Connection) -> None:
        _increase(connection)
        raise LookupError

    with pytest.raises(LookupError):
        counters.do(work)
    assert counters.look(_value) == 0


async def test_what_was_deleted_is_written_over_also_after_someone_read(
    counters: Database, run: Run
) -> None:
    """By the same connection, which then was not to write."""
    await counters.read(_value)
    assert await counters.scrub()
    await counters.read(_value)
    assert await counters.purge()


def test_transactions_of_many_tasks_and_threads_do_not_lose_each_other(
    counters: Database, run: Run
) -> None:
    async def many() -> None:
        await asyncio.gather(*(counters.run(_increase) for _ in range(40)))

    threads = [threading.Thread(target=counters.do, args=(_increase,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    run(many())
    for thread in threads:
        thread.join()
    assert counters.look(_value) == 50


def test_who_reads_does_not_wait_for_who_writes(counters: Database, run: Run) -> None:
    begun, read = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        _increase(connection)
        begun.set()
        assert read.wait(300)

    async def both() -> None:
        writing = asyncio.ensure_future(counters.run(work))
        await asyncio.to_thread(begun.wait)
        assert await counters.read(_value) == 0
        read.set()
        await writing

    run(both())
    assert counters.look(_value) == 1


def test_who_only_reads_sees_one_moment(counters: Database) -> None:
    def work(connection: Connection) -> tuple[int, int]:
        before = _value(connection)
        counters.do(_increase)
        return before, _value(connection)

    assert counters.look(work) == (0, 0)


def test_who_only_reads_cannot_write(counters: Database) -> None:
    with pytest.raises(DatabaseFailed, match=r"read-?only"):
        counters.look(_increase)
    counters.do(_increase)
    assert counters.look(_value) == 1


def test_a_wait_that_is_cancelled_leaves_a_transaction_that_has_begun_alone(
    counters: Database, run: Run
) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        begun.set()
        assert cancelled.wait(300)
        _increase(connection)

    async def cancel() -> None:
        writing = asyncio.ensure_future(counters.run(work))
        await asyncio.to_thread(begun.wait)
        writing.cancel()
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        # The next writer comes after it.
        await counters.run(_increase)

    run(cancel())
    counters.close()
    assert counters.look(_value) == 2


def test_what_must_be_unique_is_the_callers_to_name(counters: Database) -> None:
    def again(connection: Connection) -> None:
        connection.execute(text("INSERT INTO counters VALUES ('a', 1)"))

    with pytest.raises(IntegrityError):
        counters.do(again)


def test_an_error_tells_nothing_of_what_was_written(counters: Database) -> None:
    def work(connection: Connection) -> None:
        connection.execute(text("INSERT INTO nowhere VALUES (:secret)"), {"secret": "hunter2"})

    with pytest.raises(DatabaseFailed, match="nowhere") as raised:
        counters.do(work)
    assert "hunter2" not in f"{raised.value!r} {raised.value.__cause__!r}"
    assert raised.value.__suppress_context__


def test_a_foreign_key_is_held(counters: Database) -> None:
    def work(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE uses (name TEXT REFERENCES counters (name))"))
        connection.execute(text("INSERT INTO uses VALUES ('nobody')"))

    with pytest.raises(IntegrityError):
        counters.do(work)


def test_a_file_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "crucible.db"
    made = Database(f"sqlite:///{path}")
    made.open()
    assert [file.stat().st_mode & 0o077 for file in (path, path.parent)] == [0, 0]
    assert {file.stat().st_mode & 0o077 for file in path.parent.iterdir()} == {0}
    made.close()
