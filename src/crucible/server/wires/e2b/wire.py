"""The API of E2B, so that its clients work with the sandboxes of this machine.

One prefix for both planes: a request that names a sandbox in `E2b-Sandbox-Id` is for what runs inside it.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from crucible.errors import CrucibleError
from crucible.server.domain import Domain
from crucible.server.problems import from_exception
from crucible.server.wire import Wire
from crucible.server.wires.e2b import code, control, filesystem, processes, rest
from crucible.server.wires.e2b.access import authenticate
from crucible.server.wires.e2b.answers import refuse
from crucible.server.wires.e2b.lifetime import Lifetimes
from crucible.server.wires.e2b.watchers import Watchers

PREFIX = "/e2b"
# Clients drop the prefix from the addresses of files that they sign.
SIGNED_ROOTS = ("/files",)


def e2b_wires(domain: Domain) -> tuple[Wire, Wire]:
    app = _app(
        domain, [*code.routes, *rest.routes, *processes.routes, *filesystem.routes, *control.routes]
    )
    signed = _app(domain, rest.signed_routes)
    lifetimes: Lifetimes = app.state.lifetimes
    return (
        Wire(
            name="e2b",
            prefix=PREFIX,
            app=app,
            authenticate=authenticate,
            refuse=refuse,
            begin=lifetimes.watch_all,
        ),
        Wire(
            name="e2b-files",
            prefix="",
            roots=SIGNED_ROOTS,
            app=signed,
            authenticate=authenticate,
            refuse=refuse,
        ),
    )


def _app(domain: Domain, routes: list[Route]) -> Starlette:
    async def answer(request: Request, error: Exception) -> Response:
        return refuse(from_exception(error), request.state.request_id)

    app = Starlette(
        routes=routes, exception_handlers={CrucibleError: answer, HTTPException: answer}
    )
    app.router.redirect_slashes = False
    app.state.domain = domain
    app.state.lifetimes = Lifetimes(domain)
    app.state.watchers = Watchers()
    return app
