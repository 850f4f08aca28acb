"""The wire as the gate takes it: its application, its paths, its way to say no."""

from __future__ import annotations

from fastapi import FastAPI

from crucible.server import problems
from crucible.server.domain import Domain
from crucible.server.wire import Wire
from crucible.server.wires.agentkernel import commands, files, runs, sandboxes, snapshots
from crucible.server.wires.agentkernel.envelope import refuse
from crucible.server.wires.agentkernel.refused import REFUSED
from crucible.server.wires.refusing import refusing_router

# Its clients know no prefix. `/health` is our own, with the fields that they look for.
ROOTS = (
    "/run", "/batch", "/sandboxes", "/snapshots", "/orchestrations", "/objects", "/schedules", "/stores",
)  # fmt: skip


def agentkernel_wire(domain: Domain) -> Wire:
    return Wire(name="agentkernel", prefix="", roots=ROOTS, app=build_app(domain), refuse=refuse)


def build_app(domain: Domain) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.domain = domain
    for module in (runs, sandboxes, commands, files, snapshots):
        app.include_router(module.router)
    app.include_router(refusing_router(REFUSED, guide="docs/guides/agentkernel.md"))
    problems.install(app, refuse)
    return app
