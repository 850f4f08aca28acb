"""Where a provider is and what opens it. A key is in no repr, and is cut out of whatever a provider says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from crucible.agent.models.catalog import Wire
from crucible.errors import BadSetting

_CUT = "[key]"
# As the providers make them: what an error echoes may be another key than ours, and is no less somebody's.
_LIKE_A_KEY = re.compile(r"\b(?:sk|gsk|tgp|xai|pk|rk)[-_][A-Za-z0-9_\-]{12,}")
_SHORTEST_KEY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`socket` is where requests really go, for a provider that is a process of ours."""

    provider: str
    wire: Wire
    base_url: str
    key: str = field(default="", repr=False)
    socket: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """In seconds: to be connected; for the first byte; between two bytes, which is not longer; for all of it."""

    connect_s: float = 10.0
    first_byte_s: float = 300.0
    between_bytes_s: float = 90.0
    whole_s: float = 1800.0


def redact(text: str, keys: Iterable[str]) -> str:
    for key in keys:
        if len(key) >= _SHORTEST_KEY:
            text = text.replace(key, _CUT).replace(quote(key, safe=""), _CUT)
    return _LIKE_A_KEY.sub(_CUT, text)


def checked_address(text: str, origin: str) -> str:
    """An address of a provider, as requests are put behind it."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.isprintable():
        raise BadSetting(f"{origin} is no address", hint="It must begin with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise BadSetting(f"{origin} has a name or a password in it", hint="Set the key by itself")
    if parts.query or parts.fragment:
        raise BadSetting(f"{origin} has more than a path", hint="Leave out what follows ? and #")
    return text.rstrip("/")
