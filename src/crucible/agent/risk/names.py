"""Names: lists of them, and those that tell of secrets."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(?:^|_)(?:SECRETS?|PASSWORD|PASSWD|PASSPHRASE|TOKEN|CREDENTIALS?|API_?KEYS?|ACCESS_KEY(?:_ID)?"
    r"|PRIVATE_KEY|SECRET_KEY|AUTH_KEY|SIGNING_KEY|ENCRYPTION_KEY)$",
    re.IGNORECASE,
)
_MAX_NAME = 200


def is_secret_name(name: str) -> bool:
    """By its end: a `TOKEN_LIMIT` is no secret, a `GITHUB_TOKEN` is."""
    return len(name) <= _MAX_NAME and bool(_SECRET.search(name))


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())
