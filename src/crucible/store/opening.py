"""Brings a database to the schema of this program, once, however many processes open it at the same time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, func, inspect, select, text
from sqlalchemy.engine import URL

from crucible.errors import DatabaseDamaged, DatabaseTooNew
from crucible.store.address import shown
from crucible.store.engines import reading
from crucible.store.revisions import CHAIN, DIRECTORY, HEAD

# Any number that nobody else is likely to take for an advisory lock: "crucible" in ASCII.
_ADVISORY_LOCK = int.from_bytes(b"crucible", "big")


def bring_up_to_date(engine: Engine) -> None:
    """Upgrades what is older, leaves what is current, refuses what a newer program wrote."""
    with _alone(engine.url):
        with reading(engine).begin() as connection:
            if _revision(connection) == HEAD:
                return
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            # Somebody else may have done it while we waited.
            if _revision(connection) != HEAD:
                _upgrade(connection)


@contextmanager
def _alone(url: URL) -> Iterator[None]:
    """The first connection turns a new SQLite file into one with a write-ahead log, which two cannot do at once."""
    if not url.drivername.startswith("sqlite"):
        yield
        return
    descriptor = os.open(f"{url.database}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _revision(connection: Connection) -> str | None:
    """What the database is at; None for an empty one. Raises for what this program does not know."""
    place = shown(connection.engine.url)
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(found) > 1:
        raise DatabaseDamaged(place, f"it is at {len(found)} revisions at once")
    if found and found[0] not in CHAIN:
        raise DatabaseTooNew(place, str(found[0])[:80], HEAD)
    return str(found[0]) if found else None


def _upgrade(connection: Connection) -> None:
    # Loaded here because a database that is current needs none of it.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(DIRECTORY).replace("%", "%%"))
    command.upgrade(config, "head")
