"""The MCP servers that users have added for themselves, as sessions use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from crucible.conversations.settings import OwnServer, Settings
from crucible.mcp.settings import McpServer

# Whether a user may, now, reach what this machine reaches.
Trusted = Callable[[str], Awaitable[bool]]


class OwnServers:
    def __init__(self, settings: Settings, is_trusted: Trusted) -> None:
        self._settings = settings
        self._is_trusted = is_trusted

    async def of(self, user: str) -> Sequence[McpServer]:
        """Without those on this host that somebody added who is no administrator any more."""
        servers = await self._settings.servers(user)
        if not servers:
            return ()
        is_trusted = await self._is_trusted(user)
        return [
            as_server(one, is_trusted=is_trusted)
            for one in servers
            if one.where == "sandbox" or (one.by_admin and is_trusted)
        ]


def as_server(server: OwnServer, *, is_trusted: bool) -> McpServer:
    return McpServer(
        name=server.name,
        command=server.command,
        url=server.url,
        where=server.where,
        environment=server.environment,
        headers=server.headers,
        timeout_s=server.timeout_s,
        is_public_only=not (server.by_admin and is_trusted),
    )
