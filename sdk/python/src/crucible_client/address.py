"""Where the server is, and by what it knows us: from arguments, or else the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from crucible_client.errors import BadSetting

DEFAULT_URL = "http://127.0.0.1:7070"
UNIX = "unix://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`socket` is a path for a server on this machine. `reach` is called before anything is sent, and again when
    nobody listens: it sees to it that somebody does.
    """

    url: str
    socket: str | None = None
    token: str = field(default="", repr=False)
    reach: Callable[[], None] | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        return f"{UNIX}{self.socket}" if self.socket else self.url

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def find_address(url: str | None = None, token: str | None = None) -> Address:
    """`CRUCIBLE_URL` and `CRUCIBLE_TOKEN`, where nothing is given. Raises BadSetting."""
    given = url or os.environ.get("CRUCIBLE_URL") or DEFAULT_URL
    key = os.environ.get("CRUCIBLE_TOKEN", "") if token is None else token
    if not key.isascii() or not key.isprintable():
        raise BadSetting("The token has characters that no token has")
    if given.startswith(UNIX):
        path = unquote(given.removeprefix(UNIX))
        if not path.startswith("/"):
            raise BadSetting(
                f"{given!r} names no absolute path", hint="Write it like unix:///run/http.sock"
            )
        return Address(url="http://localhost", socket=path, token=key)
    try:
        parts = urlsplit(given)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise BadSetting(
            f"{given!r} is not the address of a server", hint=f"Write it like {DEFAULT_URL}"
        )
    return Address(url=given.rstrip("/"), token=key)
