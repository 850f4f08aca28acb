"""A database for each test, of either kind: a SQLite file, and a PostgreSQL server that is really there.

For the `conftest.py` of a room: `from tests.database import database, database_url, postgresql, sqlite_template`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from crucible.store.database import Database

NOBODY = 65534
_START_S = 300
_NAMES = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh one of the present schema, without anything in it."""
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("sqlite_template")
        shutil.copy(template, tmp_path / "crucible.db")
        yield f"sqlite:///{tmp_path / 'crucible.db'}"
        return
    server: Postgresql = request.getfixturevalue("postgresql")
    with server.fresh() as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    made = Database(database_url)
    yield made
    made.close()


# Once per process, not once for each `conftest.py` that has these fixtures.
_shared: dict[str, Any] = {}


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Brought up to date once, and copied for each test."""
    if "template" not in _shared:
        path = tmp_path_factory.mktemp("template") / "crucible.db"
        made = Database(f"sqlite:///{path}")
        made.open()
        made.close()
        _shared["template"] = path
    found: Path = _shared["template"]
    return found


@pytest.fixture(scope="session")
def postgresql(request: pytest.FixtureRequest) -> Postgresql:
    """One server for all tests of this process, gone with it."""
    if "server" not in _shared:
        running = contextlib.ExitStack()
        request.config.add_cleanup(running.close)
        name = running.enter_context(tempfile.TemporaryDirectory(prefix="pg-"))
        _shared["server"] = running.enter_context(_serving(Path(name)))
    found: Postgresql = _shared["server"]
    return found


class Postgresql:
    """A server that listens on a UNIX socket only."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._has_template = False

    def url(self, name: str) -> str:
        return f"postgresql://tests@/{name}?host={self.directory}"

    @contextlib.contextmanager
    def fresh(self) -> Iterator[str]:
        """A database of the present schema, dropped in the end."""
        if not self._has_template:
            self.execute("CREATE DATABASE prepared")
            made = Database(self.url("prepared"))
            made.open()
            made.close()
            self._wait_until_left("prepared")
            self._has_template = True
        with self.empty("TEMPLATE prepared") as url:
            yield url

    @contextlib.contextmanager
    def empty(self, source: str = "TEMPLATE template0") -> Iterator[str]:
        name = f"test_{next(_NAMES)}"
        self.execute(f"CREATE DATABASE {name} {source}")
        yield self.url(name)
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _wait_until_left(self, name: str) -> None:
        """A server notices a moment later that a client has gone, and copies no database that is in use."""
        query = b"SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            while connection.execute(query, [name]).fetchone() != (0,):
                time.sleep(0.02)

    def execute(self, statement: str, name: str = "postgres") -> None:
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextlib.contextmanager
def _serving(directory: Path) -> Iterator[Postgresql]:
    data = directory / "data"
    as_user: tuple[str, ...] = ("setpriv", "--pdeathsig", "SIGQUIT")
    if os.geteuid() == 0:
        # It refuses to be run by root.
        os.chown(directory, NOBODY, NOBODY)
        as_user += (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    subprocess.run(
        [*as_user, "--", _program("initdb"), "-D", data, "-U", "tests", "-A", "trust",
         "--no-sync", "--locale", "C", "-E", "UTF8"],
        check=True, capture_output=True, cwd="/",
    )  # fmt: skip
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": directory,
        "fsync": "off",
        "shared_buffers": "16MB",
        "autovacuum": "off",
    }
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*as_user, "--", _program("postgres"), "-D", data, *options],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
    server = Postgresql(directory)
    try:
        _wait_until_ready(server, process)
        yield server
    finally:
        # At once: nothing of it is needed again.
        process.send_signal(signal.SIGQUIT)
        process.wait(_START_S)


def _wait_until_ready(server: Postgresql, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            server.execute("SELECT 1")
            return
        except psycopg.OperationalError:
            assert process.poll() is None, (server.directory / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.02)


def _program(name: str) -> Path:
    """Debian has them beside each other by version, out of the way of everyone's path."""
    return max(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
