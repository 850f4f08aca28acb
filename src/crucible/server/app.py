"""The application: all routes of `/api/v1`, one shape for errors."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

from crucible.server import cookies, problems
from crucible.server.domain import Domain
from crucible.server.models.base import Problem
from crucible.server.routes import (
    PREFIX,
    approvals,
    artifacts,
    budgets,
    chat,
    code,
    commands,
    conversations,
    elsewhere,
    figures,
    files,
    health,
    holds,
    image_builds,
    image_transfers,
    images,
    ledger,
    mcp_servers,
    memory,
    metrics,
    network,
    replays,
    runs,
    sandboxes,
    sessions,
    settings,
    signing,
    skills,
    state,
    system,
    terminals,
    tokens,
    turns,
    uploads,
    users,
    volumes,
    workspaces,
)
from crucible.server.wire import Wire

MODULES = (
    health, metrics, runs, sandboxes, holds, commands, terminals, code, files, state, network, figures,
    # Before those whose paths end in an image's name.
    image_builds, image_transfers, images, volumes, tokens, system, sessions, turns, approvals, replays, ledger,
    memory, budgets, settings, mcp_servers, skills, conversations, chat, uploads, artifacts, workspaces,
    signing, elsewhere, users,
)  # fmt: skip
_DESCRIPTION = """Sandboxes of this machine: made, used, watched and removed over HTTP.

Every error is a problem document (RFC 9457) with a code that does not change."""


def build_app(domain: Domain) -> FastAPI:
    app = _own_app()
    app.state.domain = domain
    return app


def openapi_document() -> dict[str, Any]:
    """What `api/openapi.json` is made of; no home and no machine are needed to know it."""
    return _own_app().openapi()


class _App(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """With the ways to show who calls, which the gate takes before any route is known."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["components"]["securitySchemes"] = {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": cookies.NAME},
            }
            document["security"] = [{"bearer": []}, {"key": []}, {"cookie": []}]
        return self.openapi_schema or document


def _own_app() -> FastAPI:
    app = _App(
        title="Crucible",
        version=version("crucible"),
        description=_DESCRIPTION,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        responses=_problems(),
        redirect_slashes=False,
    )
    for module in MODULES:
        app.include_router(module.router)
    problems.install(app)
    return app


def own_wire(app: FastAPI) -> Wire:
    """Our own API, and whatever no other wire has."""
    return Wire(name="crucible", prefix="", app=app, takes_cookies=True)


def _problems() -> dict[int | str, dict[str, Any]]:
    told = {"model": Problem, "content": {problems.MEDIA_TYPE: {}}}
    return {"default": {**told, "description": "Any error"}}
