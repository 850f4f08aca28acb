"""What an API is to the gate: a prefix, a way to know its callers, a way to tell them no."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp

from crucible.errors import CrucibleError
from crucible.server.auth import Caller, token_caller
from crucible.server.domain import Domain
from crucible.server.problems import problem
from crucible.values import dataclass

# Who calls; raises Unauthenticated. Asked for every request that does not come through our own socket.
Authenticate = Callable[[Domain, HTTPConnection], Caller]
# An error of the gate or of a route, with the id of the request, in the words of that API.
Refuse = Callable[[CrucibleError, str], Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """`app` gets what is under `prefix`, with the prefix taken off; with "" it gets what no other has.

    An `app` finds the domain at `request.app.state.domain` and its caller at `request.state.caller`.
    """

    name: str
    prefix: str
    app: ASGIApp
    authenticate: Authenticate = token_caller
    refuse: Refuse = problem

    def has(self, path: str) -> bool:
        return path == self.prefix or path.startswith(f"{self.prefix}/")
