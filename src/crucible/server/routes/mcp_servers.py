"""MCP servers that a user has added: listed, added, removed, and tried out by asking them for their tools."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Path, Request

from crucible.errors import BadRequest, Forbidden
from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.callers import Caller
from crucible.server.defaults import session_options
from crucible.server.domain import Domain
from crucible.server.models.agent import SessionWanted
from crucible.server.models.mcp import ServerList, ServerTold, ServerTool, ServerTools, ServerWanted
from crucible.server.routes import PREFIX
from crucible.server.streaming import while_connected
from crucible.server.tokens import Scope

if TYPE_CHECKING:
    from crucible.conversations.settings import OwnServer

router = APIRouter(prefix=PREFIX, tags=["settings"])

ServerName = Annotated[str, Path(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$")]
_LONGEST_NAME = 200
_LONGEST_TEXT = 4000
_LARGEST_SCHEMA = 1 << 16


@router.get("/settings/mcp", dependencies=[MAY_READ], operation_id="listMcpServers")
async def list_all(domain: TheDomain, caller: TheCaller) -> ServerList:
    found = await (await domain.books.get()).settings.servers(caller.user)
    return ServerList(items=[ServerTold.of(one) for one in found])


@router.post("/settings/mcp", status_code=201, dependencies=[MAY_RUN], operation_id="addMcpServer")
async def add(asked: ServerWanted, domain: TheDomain, caller: TheCaller) -> ServerTold:
    """New sessions may use its tools, and those that are there from their next turn on."""
    from crucible.conversations.settings import OwnServer

    is_admin = caller.scope.includes(Scope.ADMIN)
    if asked.where == "host" and not is_admin:
        raise Forbidden("Only an administrator adds a server that runs on the host")
    if asked.url and not is_admin:
        await _check_address(asked.url)
    server = OwnServer(
        name=asked.name,
        command=tuple(asked.command),
        url=asked.url or "",
        where=asked.where,
        environment={name: one.get_secret_value() for name, one in asked.environment.items()},
        headers={name: one.get_secret_value() for name, one in asked.headers.items()},
        timeout_s=asked.timeout_s,
        by_admin=is_admin,
    )
    await (await domain.books.get()).settings.add_server(caller.user, server)
    return ServerTold.of(server)


@router.delete(
    "/settings/mcp/{name}",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="removeMcpServer",
)
async def remove(name: ServerName, domain: TheDomain, caller: TheCaller) -> None:
    await (await domain.books.get()).settings.remove_server(caller.user, name)


@router.post("/settings/mcp/{name}/test", dependencies=[MAY_RUN], operation_id="testMcpServer")
async def try_out(
    name: ServerName, domain: TheDomain, caller: TheCaller, request: Request
) -> ServerTools:
    """Connects to it as a session would, in a sandbox of its own if it runs in one, and lists its tools."""
    server = await (await domain.books.get()).settings.server(caller.user, name)
    return await while_connected(request, _asked(domain, caller, server))


async def _asked(domain: Domain, caller: Caller, server: OwnServer) -> ServerTools:
    import os

    from crucible.accounts.logins import is_trusted
    from crucible.mcp.connection import Connection
    from crucible.mcp.own import as_server

    books = await domain.books.get()
    trusted = await is_trusted(books.database, caller.user)
    if server.where == "host" and not (server.by_admin and trusted):
        raise Forbidden("Only an administrator has servers that run on the host")
    engine = await domain.engine.get()
    options = await session_options(domain, SessionWanted(), caller)
    began = time.monotonic()
    async with domain.turn(f"mcp test for {caller.user}"), engine.lend_workplace(options) as place:
        made = as_server(server, is_trusted=trusted)
        connection = Connection(made, place, dict(os.environ))
        try:
            tools = [_tool(one) for one in await connection.tools()]
        finally:
            await connection.close()
    return ServerTools(tools=tools, duration_s=round(time.monotonic() - began, 3))


def _tool(told: Any) -> ServerTool:
    schema = told.input_schema
    is_small = len(json.dumps(schema)) <= _LARGEST_SCHEMA
    return ServerTool(
        name=str(told.name)[:_LONGEST_NAME],
        description=str(told.description or "")[:_LONGEST_TEXT],
        input_schema=schema if is_small else {},
    )


async def _check_address(url: str) -> None:
    """Told at once; it is checked again whenever it is dialled. A name that has no address yet may get one."""
    from crucible.mcp.outward import public_addresses

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        raise BadRequest("This is no URL of a server") from None
    try:
        await public_addresses(host, port)
    except (OSError, TimeoutError, UnicodeError):
        return
