"""What every request passes before any route sees it: its id, its host, its rate, its caller, its size, its pace.

Fails closed: a request whose caller is not known goes no further, whatever API it is for.
"""

from __future__ import annotations

import re
import secrets
import time
import traceback
from collections.abc import Collection, Sequence

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from crucible.errors import CrucibleError, RequestForged, Unauthenticated
from crucible.server import hosts, problems
from crucible.server.auth import (
    ANYBODY,
    cookie_caller,
    given_token,
    owner_caller,
    ticket_caller,
)
from crucible.server.callers import Caller
from crucible.server.cookies import SAFE
from crucible.server.domain import Domain
from crucible.server.journal import Journal
from crucible.server.passage import Passage
from crucible.server.rates import Rates
from crucible.server.wire import Wire
from crucible.values import dataclass

MOST_SIGNING_BYTES = 16 << 10
PUBLIC = frozenset(("/health", "/ready"))
SIGNING = "/api/v1/auth"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_FAILURES_PER_SECOND = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for one listener. `trusts_peer`: nobody but the user whose sandboxes these are can reach it.

    Beneath `domain` are names that a wire may have for its own. At `public_url` is another server, which asks us.
    """

    trusts_peer: bool = False
    needs_token: bool = True
    host_names: Collection[str] = ()
    requests_per_second: int = 0
    domain: str = ""
    public_url: str = ""


class Gate:
    def __init__(
        self, app: ASGIApp, domain: Domain, wires: Sequence[Wire], journal: Journal, rules: Rules
    ) -> None:
        self._app = app
        self._domain = domain
        self._wires = sorted(wires, key=lambda wire: len(wire.prefix), reverse=True)
        self._journal = journal
        self._rules = rules
        self._rates = Rates(rules.requests_per_second)
        self._failures = Rates(_FAILURES_PER_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id = _request_id(connection)
        wire = self._wire_for(connection)
        passage = Passage(scope, receive, send, request_id, wire.refuse)
        began = time.perf_counter()
        try:
            await self._admit(connection, wire)
            with self._domain.visits.inside(passage), self._journal.span(scope, request_id):
                await wire.serve(scope, passage.receive, passage.send)
        except Exception as error:
            if not passage.has_begun:
                response = wire.refuse(problems.from_exception(error), request_id)
                await response(scope, receive, passage.send)
            elif (
                not isinstance(error, OSError | TimeoutError | CrucibleError)
                and passage.status < 500
                and passage.ended is None
            ):
                traceback.print_exception(error)
        finally:
            await passage.leave()
            self._journal.note(scope, passage.status, time.perf_counter() - began)

    def _wire_for(self, connection: HTTPConnection) -> Wire:
        """By the name that was called, if that belongs to a wire; else a page, if it is for one; else by the path."""
        label = hosts.label_beneath(connection, self._rules.domain)
        if label is not None:
            for wire in self._wires:
                place = wire.places(label) if wire.places is not None else None
                if place is not None:
                    connection.state.place = place
                    return wire
        for wire in self._wires:
            if wire.shows is not None and wire.shows(connection):
                return wire
        path = connection.scope["path"]
        return next(wire for wire in self._wires if wire.has(path))

    async def _admit(self, connection: HTTPConnection, wire: Wire) -> None:
        rules = self._rules
        if rules.trusts_peer:
            connection.state.caller = owner_caller()
            return
        if wire.places is None:
            hosts.check_host(connection, rules.host_names)
        if wire.shows is None:
            # Frames without an origin load files of the pages, which are the same for everybody.
            hosts.check_origin(connection, rules.public_url)
        if wire.places is None and connection.scope["path"] in PUBLIC:
            connection.state.caller = ANYBODY
            return
        if not rules.needs_token:
            connection.state.caller = owner_caller()
            return
        address = connection.client.host if connection.client else ""
        try:
            caller = await self._caller(connection, wire)
        except Unauthenticated:
            self._failures.spend(address)
            raise
        self._rates.spend(f"{caller.id} {address}" if caller is ANYBODY else caller.id)
        connection.state.caller = caller

    async def _caller(self, connection: HTTPConnection, wire: Wire) -> Caller:
        """A browser has no way to send a token with a WebSocket; a ticket in the address is good once."""
        ticket = connection.query_params.get("ticket")
        is_ours = wire.places is None
        if is_ours and connection.scope["type"] == "websocket" and ticket is not None:
            return await ticket_caller(self._domain, connection, ticket)
        if not wire.takes_cookies or given_token(connection):
            known = wire.authenticate(self._domain, connection)
            if known.is_insider:
                await self._domain.people.check_user(known.user)
            return known
        signing = is_signing(connection.scope["path"])
        if signing:
            # Nobody needs to be known for these, so nothing large is taken.
            connection.state.most_bytes = MOST_SIGNING_BYTES
        try:
            caller = await cookie_caller(self._domain, connection)
        except RequestForged:
            # A browser that comes back from where it signed in comes from elsewhere. It is told nothing of who it was.
            if not signing or connection.scope.get("method") not in SAFE:
                raise
            caller = None
        if caller is not None:
            return caller
        if signing:
            return ANYBODY
        raise Unauthenticated("The request carries no token, and no browser is signed in with it")


def is_signing(path: str) -> bool:
    """Where people who are not signed in find out how to, and do so."""
    return path == SIGNING or path.startswith(f"{SIGNING}/")


def _request_id(connection: HTTPConnection) -> str:
    given = connection.headers.get("x-request-id", "")
    return given if _REQUEST_ID.match(given) else secrets.token_hex(8)
