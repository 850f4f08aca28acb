"""How SQLAlchemy is set up for each of the two databases."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL

BUSY_S = 30.0
_READS_ONLY = "crucible_reads_only"
_CONNECT_S = 30
_POOL_SIZE = 8


def make_engine(url: URL) -> Engine:
    """Connects to nothing yet. What is written never appears in an error or a log: it may be somebody's secret."""
    if url.drivername.startswith("sqlite"):
        return _of_file(url)
    return _of_server(url)


def reading(engine: Engine) -> Engine:
    """The same, for transactions that see one moment, write nothing, and so need not wait for who does."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{_READS_ONLY: True})
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def settle_log(url: URL) -> None:
    """What was committed to a file lies in its log until it is moved over, and that waits for the disk by itself.

    The file itself must not be opened beside SQLite: closing it would drop SQLite's locks. The log has none.
    """
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(f"{url.database}-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _of_file(url: URL) -> Engine:
    _make_private(Path(str(url.database)))
    engine = create_engine(
        url, hide_parameters=True, pool_size=_POOL_SIZE, connect_args={"timeout": BUSY_S}
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: Any) -> None:
        # Python's own idea of when a transaction begins is not ours.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        # A commit does not wait for the disk: a loss of power may undo the last ones, and damages nothing.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        # What was deleted is gone from the file as well.
        connection.execute("PRAGMA secure_delete=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes later would fail when another has written in between.
        reads_only = bool(connection.get_execution_options().get(_READS_ONLY))
        connection.exec_driver_sql(f"PRAGMA query_only={reads_only:d}")
        connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")

    return engine


def _of_server(url: URL) -> Engine:
    defaults = {
        "connect_timeout": _CONNECT_S,
        "application_name": "crucible",
        "options": f"-c lock_timeout={int(BUSY_S * 1000)}",
    }
    given = {key: value for key, value in defaults.items() if key not in url.query}
    return create_engine(
        url,
        hide_parameters=True,
        pool_size=_POOL_SIZE,
        pool_timeout=BUSY_S,
        # A server that was started anew has dropped the connections we kept.
        pool_pre_ping=True,
        connect_args=given,
    )


def _make_private(path: Path) -> None:
    """The file, and with it what SQLite puts beside it, is for its user alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
