"""What an API is to the gate: a prefix, a way to know its callers, a way to tell them no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from crucible.errors import CrucibleError
from crucible.server.auth import Caller, token_caller
from crucible.server.domain import Domain
from crucible.server.problems import problem
from crucible.values import dataclass

# Who calls; raises Unauthenticated. Asked for every request that does not come through our own socket.
Authenticate = Callable[[Domain, HTTPConnection], Caller]
# An error of the gate or of a route, with the id of the request, in the words of that API.
Refuse = Callable[[CrucibleError, str], Response]
# What a name's label beneath the server's domain means, for the request's state; None if there is no such name.
Places = Callable[[str], Any]
# Whether a request is for a page that a browser shows.
Shows = Callable[[HTTPConnection], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """`app` gets what is under `prefix`, with the prefix taken off; with "" it gets what no other has.

    `begin` is called once the doors are open: for what goes on without anybody asking.

    One whose clients cannot take a prefix has `roots` instead, and gets the paths under these whole.

    One whose clients know nothing but a domain has `places`. It gets every path of the names that it knows and no
    other request, and finds what the name means at `request.state.place`.

    One that is for people has `shows`, which says of each request whether it is for a page; it is asked first.

    One that browsers use takes their cookie in the place of a token.

    An `app` finds the domain at `request.app.state.domain` and its caller at `request.state.caller`.
    """

    name: str
    prefix: str
    app: ASGIApp
    roots: tuple[str, ...] = ()
    authenticate: Authenticate = token_caller
    refuse: Refuse = problem
    begin: Callable[[], None] | None = None
    places: Places | None = None
    shows: Shows | None = None
    takes_cookies: bool = False

    def has(self, path: str) -> bool:
        if self.places is not None or self.shows is not None:
            return False
        places = self.roots or (self.prefix,)
        return any(path == place or path.startswith(f"{place}/") for place in places)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["root_path"] = scope.get("root_path", "") + self.prefix
        await self.app(scope, receive, send)
