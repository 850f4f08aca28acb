"""All tools of a session: the built-in ones, those of its skills, and those that servers outside bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from crucible.agent.options import SessionOptions
from crucible.agent.skills.programs import Programs
from crucible.agent.skills.shelf import Shelf
from crucible.agent.skills.toolset import SkillToolset
from crucible.agent.tools.base import Tool
from crucible.agent.tools.builtin import builtin_tools
from crucible.agent.workplace import Workplace


class Servers(Protocol):
    """Tools of MCP servers, whose connections belong to a session."""

    async def tools(
        self,
        session: str,
        wanted: Sequence[str] | None,
        workplace: Workplace,
        *,
        user: str = "",
    ) -> tuple[Tool, ...]: ...

    def failures(self, session: str) -> Mapping[str, str]: ...
    async def leave(self, session: str) -> None: ...
    async def close(self) -> None: ...


class SessionTools:
    def __init__(self, shelf: Shelf, programs: Programs, servers: Servers | None) -> None:
        self._builtin = builtin_tools()
        self._shelf = shelf
        self._programs = programs
        self._servers = servers
        self._broken: dict[str, Mapping[str, str]] = {}

    async def tools(
        self, session: str, options: SessionOptions, workplace: Workplace
    ) -> tuple[Tool, ...]:
        """A name that two of them have is that of the first: no server can stand in for `bash`."""
        skills = SkillToolset(self._shelf, self._programs, options.skills)
        found = [*await self._builtin.tools(), *await skills.tools()]
        self._broken[session] = skills.broken
        if self._servers is not None:
            found += await self._servers.tools(session, options.mcp, workplace, user=options.user)
        by_name: dict[str, Tool] = {}
        for tool in found:
            by_name.setdefault(tool.spec.name, tool)
        return tuple(by_name.values())

    def missing(self, session: str) -> Mapping[str, str]:
        broken = self._broken.get(session, {})
        failed = {} if self._servers is None else self._servers.failures(session)
        return {
            **{f"skill {name!r}": why for name, why in broken.items()},
            **{f"MCP server {name!r}": why for name, why in failed.items()},
        }

    async def leave(self, session: str) -> None:
        self._broken.pop(session, None)
        if self._servers is not None:
            await self._servers.leave(session)

    async def close(self) -> None:
        if self._servers is not None:
            await self._servers.close()
