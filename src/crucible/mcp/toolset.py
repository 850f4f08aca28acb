"""The MCP servers of all sessions: each session has connections of its own, which go with it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from crucible.agent.tools.base import Tool
from crucible.agent.tools.wording import clean_text
from crucible.agent.workplace import Workplace
from crucible.errors import CrucibleError
from crucible.mcp.connection import Connection
from crucible.mcp.own import OwnServers
from crucible.mcp.settings import McpServer, McpSettings
from crucible.mcp.tools import McpTool

_log = logging.getLogger(__name__)


class McpTools:
    """`own` has those that users have added for themselves, which go before the machine's of the same name."""

    def __init__(
        self,
        settings: McpSettings,
        environment: Mapping[str, str],
        own: OwnServers | None = None,
    ) -> None:
        self.settings = settings
        self._own = own
        self._environment = environment
        self._connections: dict[str, dict[str, Connection]] = {}
        self._listed: dict[str, dict[str, tuple[Tool, ...]]] = {}
        self._failures: dict[str, dict[str, str]] = {}
        # Who allowed a tool in a session allowed what it was said to be then.
        self._first: dict[str, dict[str, dict[str, str]]] = {}

    async def tools(
        self,
        session: str,
        wanted: Sequence[str] | None,
        workplace: Workplace,
        *,
        user: str = "",
    ) -> tuple[Tool, ...]:
        """Of the servers that the session may use. One that fails has none, and the others work all the same."""
        known = {server.name: server for server in self.settings.servers}
        if self._own is not None and user:
            known |= {server.name: server for server in await self._own.of(user)}
        servers = [server for server in known.values() if _is_wanted(server, wanted)]
        if not servers:
            return ()
        found = await asyncio.gather(
            *(self._of_server(session, server, workplace) for server in servers)
        )
        return tuple(tool for tools in found for tool in tools)

    def failures(self, session: str) -> Mapping[str, str]:
        """What is wrong with servers of this session, by their names."""
        return dict(self._failures.get(session, {}))

    async def leave(self, session: str) -> None:
        connections = self._connections.pop(session, {})
        self._listed.pop(session, None)
        self._failures.pop(session, None)
        self._first.pop(session, None)
        await asyncio.gather(*(one.close() for one in connections.values()))

    async def close(self) -> None:
        for session in list(self._connections):
            await self.leave(session)

    async def _of_server(
        self, session: str, server: McpServer, workplace: Workplace
    ) -> tuple[Tool, ...]:
        listed = self._listed.setdefault(session, {})
        connections = self._connections.setdefault(session, {})
        connection = connections.get(server.name)
        if connection is not None and connection.server != server:
            # It was removed, and another was added under its name.
            del connections[server.name]
            listed.pop(server.name, None)
            self._first.get(session, {}).pop(server.name, None)
            await connection.close()
            connection = None
        if server.name in listed and not self.settings.is_dynamic:
            return listed[server.name]
        if connection is None:
            connection = connections[server.name] = Connection(server, workplace, self._environment)
        failures = self._failures.setdefault(session, {})
        try:
            tools = await connection.tools()
        except CrucibleError as error:
            failures[server.name] = error.message
            _log.warning("session %s: %s", session, error.message)
            return listed.get(server.name, ())
        failures.pop(server.name, None)
        found = [McpTool(connection=connection, told=tool) for tool in tools]
        first = self._first.setdefault(session, {}).setdefault(server.name, {})
        same = [tool for tool in found if _is_same(tool, first)]
        if changed := [tool.told.name for tool in found if tool not in same]:
            failures[server.name] = _changed(changed)
        listed[server.name] = tuple(same)
        return listed[server.name]


def _is_same(tool: McpTool, first: dict[str, str]) -> bool:
    """Whether the model is told the same of it as when it was seen `first`, which is kept as a digest."""
    spec = tool.spec
    told = json.dumps([spec.description, spec.parameters], sort_keys=True, default=str)
    digest = hashlib.sha256(told.encode(errors="replace")).hexdigest()
    return first.setdefault(spec.name, digest) == digest


def _changed(names: Sequence[str]) -> str:
    shown = ", ".join(clean_text(name)[:60] for name in names[:5])
    return (
        f"what it says of {shown} is not what it said before; a new session takes it as it is now"
    )


def _is_wanted(server: McpServer, wanted: Sequence[str] | None) -> bool:
    return wanted is None or any(fnmatchcase(server.name, pattern) for pattern in wanted)
