"""How people come in over TCP: which of the three modes holds, and what belongs to it."""

from __future__ import annotations

from enum import StrEnum

from crucible.values import dataclass

LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))


class Mode(StrEnum):
    """Of one user by a printed link; of many with accounts; of everybody who reaches the address."""

    LOCAL = "local"
    ACCOUNTS = "accounts"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Where else people may sign in. A client without a secret is a public one: PKCE is used with either."""

    issuer: str
    client_id: str
    client_secret: str = ""
    label: str = "Single sign-on"
    id: str = "oidc"

    def __repr__(self) -> str:
        return f"OidcSettings(issuer={self.issuer!r}, client_id={self.client_id!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`is_loopback` tells that nobody but this machine's programs reach the address.

    `public_url` is where browsers find us behind another server, as an origin; "" if they come to us themselves.
    """

    mode: Mode = Mode.LOCAL
    is_signup_open: bool = False
    is_loopback: bool = True
    oidc: OidcSettings | None = None
    public_url: str = ""
