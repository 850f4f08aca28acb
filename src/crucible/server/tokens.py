"""Tokens by which callers over TCP are known: 256 random bits, of which only a hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
import time
from enum import StrEnum

from crucible.errors import BadSetting, TokenMissing
from crucible.server.store import Store
from crucible.values import dataclass

PREFIX = "crucible_"
# Whose program this is. Without accounts there is nobody else.
LOCAL = "local"
LONGEST_NAME = 80
LONGEST_TOKEN = 200


class Scope(StrEnum):
    """Each includes those before it: look, use sandboxes, change what all of them share."""

    READ = "read"
    RUN = "run"
    ADMIN = "admin"

    def includes(self, other: Scope) -> bool:
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """`sandbox` is the id of the only one it is good for, "" for all. It acts for `user`, who made it."""

    id: str
    name: str
    scope: Scope
    sandbox: str
    created_at: float
    expires_at: float | None
    user: str = LOCAL

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= time.time()


def create_token(
    store: Store,
    name: str,
    *,
    scope: Scope = Scope.RUN,
    lifetime_s: float | None = None,
    sandbox: str = "",
    user: str = LOCAL,
) -> tuple[Token, str]:
    """The token and its text, which is told this once."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadSetting(f"{name[:LONGEST_NAME]!r} is no name for a token")
    now = time.time()
    token = Token(
        id=secrets.token_hex(6),
        name=name,
        scope=scope,
        sandbox=sandbox,
        created_at=now,
        expires_at=None if lifetime_s is None else now + lifetime_s,
        user=user,
    )
    text = PREFIX + secrets.token_urlsafe(32)
    store.write(
        "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        token.id, name, hash_of(text), str(scope), sandbox, now, token.expires_at, user,
    )  # fmt: skip
    return token, text


def list_tokens(store: Store, user: str = LOCAL) -> list[Token]:
    """The machine's own user sees those of all."""
    rows = store.read("SELECT * FROM tokens ORDER BY created_at, id")
    return [token for row in rows if user in (LOCAL, (token := _token(row)).user)]


def revoke_token(store: Store, token_id: str, user: str = LOCAL) -> None:
    """Raises TokenMissing, also for one of another user."""
    own = "DELETE FROM tokens WHERE id = ? AND ? IN (user, ?)"
    if store.write(own, token_id, user, LOCAL) == 0:
        raise TokenMissing(token_id)


def revoke_all(store: Store, user: str, *, above: Scope | None = None) -> None:
    """Those of one user, or of these alone what may do more than `above`."""
    for row in store.read("SELECT * FROM tokens WHERE user = ?", user):
        token = _token(row)
        if above is None or not above.includes(token.scope):
            store.write("DELETE FROM tokens WHERE id = ?", token.id)


def forget_sandbox(store: Store, sandbox: str) -> None:
    """What was good for a sandbox that is gone is good for nothing."""
    store.write("DELETE FROM tokens WHERE sandbox = ?", sandbox)


def find_token(store: Store, text: str) -> Token | None:
    """The token of this text, if there is one and its time is not over."""
    if len(text) > LONGEST_TOKEN:
        return None
    given = hash_of(text)
    for row in store.read("SELECT * FROM tokens WHERE hash = ?", given):
        # The index compares what is a hash already, so its timing tells nothing; this does not rest on that.
        if hmac.compare_digest(bytes(row["hash"]), given) and not (found := _token(row)).is_expired:
            return found
    return None


def is_good(store: Store, token_id: str) -> bool:
    """Whether there still is a token of this id whose time is not over."""
    rows = store.read("SELECT * FROM tokens WHERE id = ?", token_id)
    return any(not _token(row).is_expired for row in rows)


def hash_of(text: str) -> bytes:
    """One round is enough: nobody guesses 256 bits."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).digest()


def _token(row: sqlite3.Row) -> Token:
    return Token(
        id=row["id"],
        name=row["name"],
        scope=Scope(row["scope"]),
        sandbox=row["sandbox"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        user=row["user"],
    )
