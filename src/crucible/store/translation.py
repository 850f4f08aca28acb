"""Errors of the database as ours: which state it is in, without what was being written and without a password."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from crucible.errors import (
    CrucibleError,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFailed,
    DatabaseUnreachable,
)
from crucible.store.engines import BUSY_S

_LOCK_NOT_AVAILABLE = "55P03"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CLOSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_PRIMARY_CODE = 0xFF


@contextmanager
def translated(place: str) -> Iterator[None]:
    """IntegrityError passes: it is an answer (what was to be unique is there already), and for the caller to name."""
    try:
        yield
    except exc.IntegrityError:
        raise
    except exc.DBAPIError as error:
        # Without the cause: its text may have the statement.
        raise _named(place, error) from None
    except sqlite3.Error as error:
        raise _named_of_file(place, error) from None
    except exc.TimeoutError:
        raise DatabaseBusy(place, BUSY_S) from None


def _named(place: str, error: exc.DBAPIError) -> CrucibleError:
    if isinstance(error.orig, sqlite3.Error):
        return _named_of_file(place, error.orig)
    reason = _first_line(error.orig)
    state = getattr(error.orig, "sqlstate", None)
    if state == _LOCK_NOT_AVAILABLE:
        return DatabaseBusy(place, BUSY_S)
    if isinstance(error, exc.OperationalError) and (state is None or error.connection_invalidated):
        return DatabaseUnreachable(place, reason)
    return DatabaseFailed(place, reason)


def _named_of_file(place: str, error: sqlite3.Error) -> CrucibleError:
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    if code in _BUSY:
        return DatabaseBusy(place, BUSY_S)
    if code in _DAMAGED:
        return DatabaseDamaged(place, _first_line(error))
    return (DatabaseUnreachable if code in _CLOSED else DatabaseFailed)(place, _first_line(error))


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0][:300]
