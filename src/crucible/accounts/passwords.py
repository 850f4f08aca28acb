"""Passwords as argon2id hashes (RFC 9106, the second recommended set: 3 passes over 64 MiB, 4 lanes).

Each costs time and memory on purpose, so only a few are worked on at once, away from the event loop, and who comes
when too many wait is sent away. A name that nobody has costs as much as one that somebody has.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from crucible.errors import BadPassword, SignInBusy

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST: Final = 10
LONGEST: Final = 1024
PASSES: Final = 3
MEMORY_KIB: Final = 64 * 1024
LANES: Final = 4
AT_ONCE: Final = 2
MOST_WAITING: Final = 16

T = TypeVar("T")


class Passwords:
    """`work` counts how often a hash was computed, whatever came of it."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._counting = threading.Lock()
        self._under_way = 0
        self.work = 0

    async def hash(self, password: str) -> str:
        """Raises BadPassword for one that is too short, too long or no text; SignInBusy."""
        text = check_password(password)
        return await self._in_thread(lambda: self._hasher.hash(text))

    async def matches(self, password: str, kept: str) -> bool:
        """False for a `kept` of "", after the same work. Raises SignInBusy."""
        text = _as_bytes(password)
        return await self._in_thread(lambda: self._verify(text, kept))

    def is_outdated(self, kept: str) -> bool:
        """Whether it was made with other parameters than these."""
        return self._hasher.check_needs_rehash(kept)

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    def _verify(self, text: bytes | None, kept: str) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            self._hasher.verify(kept or self._nobodys, text or b"")
        except (VerificationError, InvalidHashError):
            return False
        return bool(kept) and text is not None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        with self._counting:
            if self._under_way >= AT_ONCE + MOST_WAITING:
                raise SignInBusy
            self._under_way += 1
            self.work += 1
        try:
            future = self._threads.submit(work)
        except BaseException:
            self._done()
            raise
        # Not when who waits for it goes: it is worked on to its end all the same.
        future.add_done_callback(lambda _: self._done())
        return await asyncio.wrap_future(future)

    def _done(self) -> None:
        with self._counting:
            self._under_way -= 1

    @cached_property
    def _hasher(self) -> PasswordHasher:
        from argon2 import PasswordHasher, Type

        return PasswordHasher(
            time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID
        )

    @cached_property
    def _nobodys(self) -> str:
        """A hash with the parameters of all others, of what nobody knows; it was never computed."""
        import base64

        def shown(count: int) -> str:
            return base64.b64encode(secrets.token_bytes(count)).decode().rstrip("=")

        return f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${shown(16)}${shown(32)}"


def check_password(password: str) -> bytes:
    """As it is hashed. Raises BadPassword."""
    text = _as_bytes(password)
    if text is None or len(password) < SHORTEST:
        raise BadPassword(SHORTEST, LONGEST)
    return text


def _as_bytes(password: str) -> bytes | None:
    """In the form in which all keyboards write it alike; None for what nobody's password can be."""
    if len(password) > LONGEST:
        return None
    try:
        return unicodedata.normalize("NFC", password).encode()
    except UnicodeEncodeError:
        return None
