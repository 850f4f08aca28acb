"""The wire as the gate takes it: its application, its prefix, its way to know callers and to say no."""

from __future__ import annotations

from fastapi import FastAPI

from crucible.server import problems
from crucible.server.domain import Domain
from crucible.server.wire import Wire
from crucible.server.wires.opensandbox import commands, files, lifecycle, state
from crucible.server.wires.opensandbox.answers import authenticate, refuse
from crucible.server.wires.opensandbox.refused import REFUSED
from crucible.server.wires.refusing import refusing_router

PREFIX = "/opensandbox"


def opensandbox_wire(domain: Domain) -> Wire:
    return Wire(
        name="opensandbox",
        prefix=PREFIX,
        app=build_app(domain),
        authenticate=authenticate,
        refuse=refuse,
    )


def build_app(domain: Domain) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.domain = domain
    for module in (lifecycle, commands, files, state):
        app.include_router(module.router)
    app.include_router(refusing_router(REFUSED, guide="docs/guides/opensandbox.md"))
    problems.install(app, refuse)
    return app
