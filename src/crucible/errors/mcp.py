"""What goes wrong with MCP servers."""

from __future__ import annotations

from crucible.errors.base import CrucibleError


class McpFailed(CrucibleError):
    """An MCP server did not do what it was asked."""

    code = "mcp-failed"

    def __init__(self, server: str, why: str) -> None:
        super().__init__(
            f"MCP server {server!r} failed: {why}", hint="Look at its entry in your mcp.toml"
        )
