"""One-time codes: whoever reads what the program prints, or reaches its socket, shows it by one of these.

They are kept in memory alone, and as hashes.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict

from crucible.errors import CodeRefused

LIFETIME_S = 600.0
MOST_CODES = 20
LONGEST_CODE = 100


class Links:
    """Of too many the oldest is forgotten."""

    def __init__(self) -> None:
        self._codes: OrderedDict[bytes, float] = OrderedDict()

    def give(self) -> str:
        code = secrets.token_urlsafe(32)
        self._codes[_hash_of(code)] = time.monotonic() + LIFETIME_S
        while len(self._codes) > MOST_CODES:
            self._codes.popitem(last=False)
        return code

    def redeem(self, code: str) -> None:
        """Good once. Raises CodeRefused."""
        expires_at = self._codes.pop(_hash_of(code), 0.0) if len(code) <= LONGEST_CODE else 0.0
        if expires_at <= time.monotonic():
            raise CodeRefused


def _hash_of(code: str) -> bytes:
    return hashlib.sha256(code.encode(errors="surrogatepass")).digest()
