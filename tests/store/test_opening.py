"""A database is brought to the schema of this program, whoever else opens it, or refused by a clear name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from tests.database import Postgresql

from crucible.errors import DatabaseDamaged, DatabaseTooNew, DatabaseUnreachable
from crucible.store.database import Database
from crucible.store.revisions import CHAIN, DIRECTORY, HEAD
from crucible.store.tables import all_tables

# One process that has loaded everything, and then becomes four: they are at it at the same time.
OPEN = """
import os, sys
import alembic.command, psycopg
from crucible.store.database import Database

children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        Database(sys.argv[1]).open()
        os._exit(0)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database in which nothing is."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'new.db'}"
        return
    server: Postgresql = request.getfixturevalue("postgresql")
    with server.empty() as url:
        yield url


def test_the_migrations_make_the_tables_that_are_declared(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), all_tables()))

    assert database.look(differences) == []


def test_the_migrations_are_one_chain() -> None:
    config = Config()
    config.set_main_option("script_location", str(DIRECTORY))
    found = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(found)) == CHAIN


def test_many_processes_open_a_new_one_at_once(empty_url: str) -> None:
    argv = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", OPEN, empty_url]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    database = Database(empty_url)
    assert database.look(_revision) == HEAD
    database.close()


def _revision(connection: Connection) -> str:
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def test_one_that_a_newer_program_wrote_is_refused(database: Database) -> None:
    database.do(lambda connection: connection.execute(
        text("UPDATE alembic_version SET version_num = '0999_future'")
    ))  # fmt: skip
    database.close()
    with pytest.raises(DatabaseTooNew, match="0999_future"):
        database.open()


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_that_is_none_is_said_to_be_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "crucible.db"
    path.write_bytes(content)
    with pytest.raises(DatabaseDamaged, match=str(path)):
        Database(f"sqlite:///{path}").open()
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@/name?host=/nonexistent",
        "postgresql://me@/name?host=/nonexistent&password=hunter2",
        "postgresql://me:hunter2@127.0.0.1:1/name",
    ],
)
def test_a_server_that_does_not_answer_is_named_without_the_password(url: str) -> None:
    database = Database(url)
    with pytest.raises(DatabaseUnreachable) as raised:
        database.open()
    assert "name at" in raised.value.message
    assert "hunter2" not in f"{raised.value!r} {raised.value.hint} {database!r}"
    assert raised.value.__suppress_context__


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnreachable, match="file"):
        Database(f"sqlite:///{tmp_path}/file/crucible.db").open()


def test_connections_that_the_server_has_ended_are_made_anew(postgresql: Postgresql) -> None:
    with postgresql.fresh() as url:
        database = Database(url)
        pid = database.look(_pid)
        postgresql.execute(f"SELECT pg_terminate_backend({pid}, 60000)")
        assert database.look(_revision) == HEAD
        assert database.look(_pid) != pid
        database.close()


def _pid(connection: Connection) -> int:
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
