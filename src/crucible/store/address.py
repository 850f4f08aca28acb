"""Which database: the one that the user has named, else a file in the state directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from crucible.errors import BadSetting
from crucible.store.names import FILE_NAME, VARIABLE
from crucible.user_file import gather

_LONGEST = 4096
_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_HINT = "Use postgresql://user:password@host/name, or sqlite:////path/to/file"


def database_url(home: Path, environment: Mapping[str, str]) -> str:
    """What the user has set, else the file of this state directory. It may hold a password: never show it."""
    found = gather(environment, only="database").get(VARIABLE)
    if found is None:
        return URL.create("sqlite", database=str(home / FILE_NAME)).render_as_string()
    parse(found.text, found.origin)
    return found.text


def parse(text: str, origin: str = VARIABLE) -> URL:
    """A URL with the driver that we have for it. What is wrong with it is said without showing it."""
    if len(text) > _LONGEST or not text.isprintable():
        raise BadSetting(f"{origin} is no URL: it is too long, or has control characters")
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise BadSetting(f"{origin} is no URL of a database", hint=_HINT) from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise BadSetting(f"{origin} names {url.drivername[:40]!r}", hint=_HINT)
    if driver.startswith("sqlite") and not _is_file(url):
        raise BadSetting(f"{origin} names no absolute path of a file", hint=_HINT)
    return url.set(drivername=driver)


def shown(url: URL) -> str:
    """For people: where it is, without a password and without options, which may hold one too."""
    if url.drivername.startswith("sqlite"):
        return str(url.database)
    host = str(url.host or url.query.get("host") or "localhost")
    port = f":{url.port}" if url.port else ""
    return f"{url.database or ''} at {host}{port}"


def _is_file(url: URL) -> bool:
    return bool(url.database) and Path(str(url.database)).is_absolute() and not url.query
