"""The API of E2B, so that its clients work with the sandboxes of this machine.

One prefix for both planes: a request that names a sandbox in `E2b-Sandbox-Id` is for what runs inside it. Clients that
know nothing but a domain come by names instead, the control plane's and one for each port of a sandbox.
"""

from __future__ import annotations

from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from crucible.errors import CrucibleError
from crucible.server.domain import Domain
from crucible.server.doorway import E2bDomain
from crucible.server.problems import from_exception
from crucible.server.wire import Wire
from crucible.server.wires.e2b import code, control, filesystem, ports, processes, rest
from crucible.server.wires.e2b.access import authenticate, authenticate_by_name
from crucible.server.wires.e2b.answers import refuse
from crucible.server.wires.e2b.lifetime import Lifetimes
from crucible.server.wires.e2b.names import CODE_PORT, ENVD_PORT, called_place, place_of
from crucible.server.wires.e2b.watchers import Watchers

PREFIX = "/e2b"
# Clients drop the prefix from the addresses of files that they sign.
SIGNED_ROOTS = ("/files",)


def e2b_wires(domain: Domain, names: E2bDomain | None = None) -> tuple[Wire, ...]:
    apps = _Apps(domain, names)
    envd = [*rest.routes, *processes.routes, *filesystem.routes]
    app = apps.of([*code.routes, *envd, *control.routes])
    by_header = Wire(
        name="e2b",
        prefix=PREFIX,
        app=app,
        authenticate=authenticate,
        refuse=refuse,
        begin=apps.lifetimes.watch_all,
    )
    signed = Wire(
        name="e2b-files",
        prefix="",
        roots=SIGNED_ROOTS,
        app=apps.of(rest.signed_routes),
        authenticate=authenticate,
        refuse=refuse,
    )
    if names is None:
        return by_header, signed
    by_name = Wire(
        name="e2b-names",
        prefix="",
        app=_by_name(apps, envd),
        authenticate=partial(authenticate_by_name, is_public=names.is_public),
        refuse=refuse,
        places=place_of,
    )
    return by_header, signed, by_name


class _Apps:
    """Applications that know the same sandboxes, timers and watchers."""

    def __init__(self, domain: Domain, names: E2bDomain | None) -> None:
        self.lifetimes = Lifetimes(domain)
        self._domain = domain
        self._names = names
        self._watchers = Watchers()

    def of(self, routes: list[BaseRoute]) -> Starlette:
        async def answer(request: Request, error: Exception) -> Response:
            return refuse(from_exception(error), request.state.request_id)

        kinds = (CrucibleError, HTTPException, Exception)
        app = Starlette(routes=routes, exception_handlers=dict.fromkeys(kinds, answer))
        app.router.redirect_slashes = False
        app.state.domain = self._domain
        app.state.names = self._names
        app.state.lifetimes = self.lifetimes
        app.state.watchers = self._watchers
        return app


def _by_name(apps: _Apps, envd: list[BaseRoute]) -> ASGIApp:
    control_plane = apps.of(control.routes)
    programs = {ENVD_PORT: apps.of(envd), CODE_PORT: apps.of(code.routes)}
    guests_own = apps.of(ports.routes)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        place = called_place(HTTPConnection(scope))
        if place is None or place.is_control:
            await control_plane(scope, receive, send)
        else:
            await programs.get(place.port, guests_own)(scope, receive, send)

    return serve
