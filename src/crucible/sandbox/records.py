"""What Crucible remembers of its sandboxes: SQLite, written before the side effect it describes.

A record says what was meant; whether the process behind it still lives is asked of the host each time.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from crucible.errors import (
    HostDiskFull,
    NameTaken,
    SandboxMissing,
    SnapshotMissing,
    SnapshotTaken,
    StateDamaged,
    StateTooNew,
)
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.spec import SandboxSpec, parse_spec
from crucible.values import asdict, dataclass

FORMAT = 3
# Whose sandboxes are those that nobody else asked for: the user whose program this is.
LOCAL = "local"
FILE_NAME = "records.sqlite"
_LEAST_FREE_BYTES = 1 << 20
_BUDGET = ("budget_tokens", "budget_usd", "charges")

State = Literal[
    "warm",
    "creating",
    "created",
    "starting",
    "running",
    "paused",
    "stopping",
    "stopped",
    "broken",
    "removing",
]

_SCHEMA = """
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    spec TEXT NOT NULL,
    backend TEXT NOT NULL DEFAULT '',
    isolation TEXT NOT NULL DEFAULT '',
    image_digest TEXT NOT NULL DEFAULT '',
    pid INTEGER,
    pid_started TEXT NOT NULL DEFAULT '',
    pid_detail TEXT NOT NULL DEFAULT '',
    holder_pid INTEGER,
    holder_started TEXT NOT NULL DEFAULT '',
    host_uid INTEGER UNIQUE,
    created_at REAL NOT NULL,
    started_at REAL,
    host_directory TEXT,
    is_temporary INTEGER NOT NULL DEFAULT 0,
    has_disk INTEGER NOT NULL DEFAULT 0,
    note TEXT NOT NULL DEFAULT '',
    placed TEXT NOT NULL DEFAULT '',
    owner TEXT NOT NULL DEFAULT 'local'
);
CREATE TABLE snapshots (
    tag TEXT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    sandbox_name TEXT NOT NULL,
    spec TEXT NOT NULL,
    backend TEXT NOT NULL,
    isolation TEXT NOT NULL,
    image_digest TEXT NOT NULL,
    created_at REAL NOT NULL,
    owner TEXT NOT NULL DEFAULT 'local'
);
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    who TEXT NOT NULL,
    verb TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    detail TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT 'local'
);
"""


# What leads from one format to the next, by the format that it leads from.
_STEPS = {
    1: ("ALTER TABLE sandboxes ADD COLUMN placed TEXT NOT NULL DEFAULT ''",),
    2: tuple(
        f"ALTER TABLE {table} ADD COLUMN owner TEXT NOT NULL DEFAULT 'local'"
        for table in ("sandboxes", "snapshots", "audit")
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """`placed` is why it runs where it runs; `owner` the user who sees it, and nobody else but the machine's own."""

    id: str
    name: str
    state: State
    spec: SandboxSpec
    directory: Path
    created_at: float
    backend: str = ""
    isolation: str = ""
    image_digest: str = ""
    pid: int | None = None
    pid_started: str = ""
    pid_detail: str = ""
    holder_pid: int | None = None
    holder_started: str = ""
    host_uid: int | None = None
    started_at: float | None = None
    host_directory: str | None = None
    is_temporary: bool = False
    has_disk: bool = False
    note: str = ""
    placed: str = ""
    owner: str = LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    tag: str
    id: str
    state: Literal["saving", "saved", "removing"]
    sandbox_name: str
    spec: SandboxSpec
    backend: str
    isolation: str
    image_digest: str
    created_at: float
    directory: Path
    owner: str = LOCAL


def open_records(home: Path) -> Records:
    return Records(home)


class Records:
    """One connection; safe to use from many processes at once. Not to be shared between threads.

    `listeners` are called when a line of audit was written through this one.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.listeners: set[Callable[[], None]] = set()
        path = home / FILE_NAME
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            # What a newer version wrote is not touched at all, not even in how it is stored.
            self._refuse_newer(path)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._migrate(path)
        except sqlite3.DatabaseError as error:
            raise _translate(error, path) from error

    def close(self) -> None:
        self._db.close()

    def add(self, record: SandboxRecord) -> SandboxRecord:
        with self._writing():
            row = _row_of(record)
            names = ", ".join(row)
            marks = ", ".join(f":{name}" for name in row)
            try:
                self._db.execute(f"INSERT INTO sandboxes ({names}) VALUES ({marks})", row)  # noqa: S608 - our own names
            except sqlite3.IntegrityError:
                raise NameTaken(record.name) from None
        return record

    def update(self, record_id: str, **changes: Any) -> SandboxRecord:
        """Changes fields of a record and gives it as it is now."""
        assignments = ", ".join(f"{name} = :{name}" for name in changes)
        with self._writing():
            self._db.execute(
                f"UPDATE sandboxes SET {assignments} WHERE id = :id",  # noqa: S608 - our own names
                {**changes, "id": record_id},
            )
            row = self._db.execute("SELECT * FROM sandboxes WHERE id = ?", (record_id,)).fetchone()
        if row is None:
            raise SandboxMissing(record_id)
        return self._record(row)

    def hand_out(
        self,
        record_id: str,
        name: str,
        spec: SandboxSpec,
        isolation: str,
        placed: str,
        owner: str = LOCAL,
    ) -> SandboxRecord:
        """A machine that waited becomes somebody's sandbox."""
        if self._read("SELECT id FROM sandboxes WHERE name = ? AND id != ?", name, record_id):
            raise NameTaken(name)
        return self.update(
            record_id, name=name, spec=_spec_json(spec), isolation=isolation, state="starting",
            created_at=time.time(), placed=placed, owner=owner,
        )  # fmt: skip

    def rename(self, record_id: str, name: str) -> SandboxRecord:
        if self._read("SELECT id FROM sandboxes WHERE name = ? AND id != ?", name, record_id):
            raise NameTaken(name)
        return self.update(record_id, name=name)

    def change_spec(self, record_id: str, spec: SandboxSpec) -> SandboxRecord:
        return self.update(record_id, spec=_spec_json(spec))

    def delete(self, record_id: str) -> None:
        with self._writing():
            self._db.execute("DELETE FROM sandboxes WHERE id = ?", (record_id,))

    def find(self, name: str) -> SandboxRecord:
        rows = self._read("SELECT * FROM sandboxes WHERE name = ?", name)
        if not rows:
            raise SandboxMissing(name)
        return self._record(rows[0])

    def sandboxes(self) -> list[SandboxRecord]:
        rows = self._read("SELECT * FROM sandboxes ORDER BY created_at, name")
        return [self._record(row) for row in rows]

    def host_uids(self) -> set[int]:
        """The users of the host that sandboxes have."""
        rows = self._read("SELECT host_uid FROM sandboxes WHERE host_uid IS NOT NULL")
        return {int(row[0]) for row in rows}

    def add_snapshot(self, record: SnapshotRecord) -> None:
        row = {**asdict(record), "spec": _spec_json(record.spec)}
        del row["directory"]
        with self._writing():
            try:
                self._db.execute(
                    "INSERT INTO snapshots VALUES (:tag, :id, :state, :sandbox_name, :spec, :backend,"
                    " :isolation, :image_digest, :created_at, :owner)",
                    row,
                )
            except sqlite3.IntegrityError:
                raise SnapshotTaken(record.tag) from None

    def mark_snapshot(self, tag: str, state: str) -> None:
        with self._writing():
            self._db.execute("UPDATE snapshots SET state = ? WHERE tag = ?", (state, tag))

    def delete_snapshot(self, tag: str) -> None:
        with self._writing():
            self._db.execute("DELETE FROM snapshots WHERE tag = ?", (tag,))

    def find_snapshot(self, tag: str) -> SnapshotRecord:
        rows = self._read("SELECT * FROM snapshots WHERE tag = ?", tag)
        if not rows:
            raise SnapshotMissing(tag)
        return self._snapshot(rows[0])

    def snapshots(self) -> list[SnapshotRecord]:
        rows = self._read("SELECT * FROM snapshots ORDER BY created_at")
        return [self._snapshot(row) for row in rows]

    def write_audit(
        self, verb: str, sandbox: str, detail: dict[str, Any], *, owner: str = LOCAL
    ) -> None:
        """`owner` is whose sandbox it is or was: names are given again, so they do not tell."""
        with self._writing():
            self._db.execute(
                "INSERT INTO audit (at, who, verb, sandbox, detail, owner) VALUES (?, ?, ?, ?, ?, ?)",
                (time.time(), str(os.getuid()), verb, sandbox, json.dumps(detail), owner),
            )
        for heard in tuple(self.listeners):
            heard()

    def audit(
        self, limit: int = 100, *, sandbox: str | None = None, owner: str | None = None
    ) -> list[dict[str, Any]]:
        """The newest lines first; those about one sandbox, if it is named, and of one owner."""
        rows = self._read(
            "SELECT * FROM audit WHERE sandbox = coalesce(?, sandbox) AND owner = coalesce(?, owner)"
            " ORDER BY number DESC LIMIT ?",
            sandbox, owner, limit,
        )  # fmt: skip
        return [_line(row) for row in rows]

    def audit_after(
        self, number: int, limit: int, *, owner: str | None = None
    ) -> list[dict[str, Any]]:
        """Lines after this one, the oldest first; of one owner, if that is named."""
        rows = self._read(
            "SELECT * FROM audit WHERE number > ? AND owner = coalesce(?, owner)"
            " ORDER BY number LIMIT ?",
            number, owner, limit,
        )  # fmt: skip
        return [_line(row) for row in rows]

    def _read(self, query: str, *values: str | int | None) -> list[sqlite3.Row]:
        try:
            return self._db.execute(query, values).fetchall()
        except UnicodeEncodeError:  # what is no text is in no row
            return []
        except sqlite3.DatabaseError as error:
            raise _translate(error, self.home / FILE_NAME) from error

    def _migrate(self, path: Path) -> None:
        if self._version() == FORMAT:
            return
        with self._writing():
            self._refuse_newer(path)
            found = self._version()
            if found == 0:
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
            else:
                for step in range(found, FORMAT):
                    for statement in _STEPS[step]:
                        self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def _refuse_newer(self, path: Path) -> None:
        version = self._version()
        if version > FORMAT:
            raise StateTooNew(version, FORMAT, str(path.parent))

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        path = self.home / FILE_NAME
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            raise _translate(error, path) from error
        try:
            yield
            self._db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._rollback()
            raise _translate(error, path) from error
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _record(self, row: sqlite3.Row) -> SandboxRecord:
        values = dict(row)
        values["spec"] = _parse_spec(values["spec"])
        values["is_temporary"] = bool(values["is_temporary"])
        values["has_disk"] = bool(values["has_disk"])
        return SandboxRecord(**values, directory=sandbox_directory(self.home, values["id"]))

    def _snapshot(self, row: sqlite3.Row) -> SnapshotRecord:
        values = dict(row)
        values["spec"] = _parse_spec(values["spec"])
        return SnapshotRecord(**values, directory=snapshot_directory(self.home, values["id"]))


def sandbox_directory(home: Path, record_id: str) -> Path:
    return home / "sandboxes" / record_id


def snapshot_directory(home: Path, record_id: str) -> Path:
    return home / "snapshots" / record_id


def record_as_json(record: SandboxRecord | SnapshotRecord) -> dict[str, Any]:
    values = asdict(record)
    values["spec"] = json.loads(_spec_json(record.spec))
    values["directory"] = str(record.directory)
    return values


def _line(row: sqlite3.Row) -> dict[str, Any]:
    line = {**dict(row), "detail": json.loads(row["detail"])}
    del line["owner"]
    return line


def snapshot_facts(record: SnapshotRecord) -> dict[str, Any]:
    """What travels with a snapshot that leaves this host."""
    names = ("sandbox_name", "backend", "isolation", "image_digest", "created_at")
    return {"spec": _spec_json(record.spec), **{name: getattr(record, name) for name in names}}


def snapshot_from_facts(
    facts: dict[str, Any], *, tag: str, record_id: str, directory: Path, owner: str = LOCAL
) -> SnapshotRecord:
    try:
        return SnapshotRecord(
            tag=tag,
            id=record_id,
            state="saved",
            sandbox_name=str(facts["sandbox_name"])[:63],
            spec=_parse_spec(facts["spec"]),
            backend=str(facts["backend"]),
            isolation=str(Isolation(facts["isolation"])),
            image_digest=str(facts["image_digest"]),
            created_at=float(facts["created_at"]),
            directory=directory,
            owner=owner,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateDamaged(f"The snapshot's description cannot be read: {error}") from None


def _row_of(record: SandboxRecord) -> dict[str, Any]:
    row = {**asdict(record), "spec": _spec_json(record.spec)}
    del row["directory"]
    return row


def _spec_json(spec: SandboxSpec) -> str:
    values = {**asdict(spec), "environment": dict(spec.environment), "images": dict(spec.images)}
    # An earlier version reads what asks for no budget; what does it must refuse, since it could not keep it.
    return json.dumps(
        {name: value for name, value in values.items() if value or name not in _BUDGET}
    )


def _parse_spec(text: str) -> SandboxSpec:
    try:
        values = json.loads(text)
    except (ValueError, TypeError):
        values = None
    if not isinstance(values, dict):
        raise StateDamaged("The description of a sandbox cannot be read")
    return parse_spec(values)


def _translate(error: sqlite3.DatabaseError, path: Path) -> Exception:
    text = str(error)
    # Some writes of SQLite fail on a full disk with nothing but "disk I/O error".
    if "full" in text or ("I/O" in text and _is_full(path)):
        return HostDiskFull(str(path))
    return StateDamaged(
        f"The records in {path} cannot be used: {text}",
        hint="Move the file away to begin anew; sandboxes' disks stay in their directories",
    )


def _is_full(path: Path) -> bool:
    try:
        status = os.statvfs(path.parent)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _LEAST_FREE_BYTES
