"""How much a user may upload and how often ask, as the settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crucible.errors import BadSetting
from crucible.user_file import gather

_MOST_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`file_bytes` is the most for one file, `user_bytes` for all that a user has here; 0 turns is no limit."""

    file_bytes: int = 100 << 20
    user_bytes: int = 2048 << 20
    turns_per_minute: int = 60


def load_limits(environment: Mapping[str, str]) -> Limits:
    usual = Limits()
    given = gather(environment, only="chat")

    def number(variable: str, default: int) -> int:
        found = given.get(variable)
        if found is None:
            return default
        text = found.text.strip()
        if not (text.isascii() and text.isdecimal()) or int(text[:8]) > _MOST_MIB:
            raise BadSetting(
                f"{found.origin} is {text[:80]!r}", hint=f"It must be a number up to {_MOST_MIB}"
            )
        return int(text)

    return Limits(
        file_bytes=number("CRUCIBLE_UPLOAD_MIB", usual.file_bytes >> 20) << 20,
        user_bytes=number("CRUCIBLE_UPLOADS_MIB", usual.user_bytes >> 20) << 20,
        turns_per_minute=number("CRUCIBLE_TURNS_PER_MINUTE", usual.turns_per_minute),
    )
