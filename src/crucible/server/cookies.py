"""The cookie of a browser that is signed in, and what shows that one of our own pages sent a request with it."""

from __future__ import annotations

import hashlib
import hmac

from starlette.requests import HTTPConnection
from starlette.responses import Response

from crucible.errors import RequestForged
from crucible.server.domain import domain_of

NAME = "crucible_session"
CSRF_HEADER = "X-Crucible-CSRF"
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
# What a browser says of where a request comes from: our own page, or the user's own hand.
_OURS = frozenset(("same-origin", "none"))


def given_cookie(connection: HTTPConnection) -> str:
    """A browser that has two of the name was given one by somebody else: neither counts."""
    headers = connection.headers.getlist("cookie")
    pairs = [pair.strip().partition("=") for line in headers for pair in line.split(";")]
    found = [value for name, _, value in pairs if name == NAME]
    return found[0] if len(found) == 1 else ""


def set_cookie(
    response: Response, connection: HTTPConnection, text: str, lifetime_s: float
) -> None:
    response.set_cookie(
        NAME,
        text,
        max_age=int(lifetime_s),
        path="/",
        httponly=True,
        samesite="lax",
        secure=is_secure(connection),
    )


def clear_cookie(response: Response, connection: HTTPConnection) -> None:
    response.delete_cookie(
        NAME, path="/", httponly=True, samesite="lax", secure=is_secure(connection)
    )


def is_secure(connection: HTTPConnection) -> bool:
    """By what was set and by the connection itself: what a header says of it is not asked."""
    if domain_of(connection).access.public_url.startswith("https:"):
        return True
    return connection.scope.get("scheme") in ("https", "wss")


def csrf_of(cookie: str) -> str:
    """What no page of another origin can know: it cannot read the cookie, nor what we answer."""
    return hmac.new(cookie.encode(), b"crucible-csrf", hashlib.sha256).hexdigest()


def check_own_page(connection: HTTPConnection, cookie: str) -> None:
    """Raises RequestForged. The Origin, where there is one, was found to be ours before."""
    if connection.headers.get("sec-fetch-site", "none") not in _OURS:
        raise RequestForged("The request comes from a page of another origin")
    if connection.scope["type"] == "websocket":
        if "origin" not in connection.headers:
            raise RequestForged("A WebSocket with a cookie needs an Origin")
        return
    if connection.scope["method"] in SAFE:
        return
    given = connection.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(given.encode(), csrf_of(cookie).encode()):
        raise RequestForged(f"The header {CSRF_HEADER} is missing or wrong")
