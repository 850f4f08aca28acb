"""The tools that every session has."""

from __future__ import annotations

from dataclasses import dataclass

from crucible.agent.tools.base import Tool, Toolset
from crucible.agent.tools.bash import Bash
from crucible.agent.tools.edit import EditTool
from crucible.agent.tools.glob import GlobTool
from crucible.agent.tools.grep import Grep
from crucible.agent.tools.ls import Ls
from crucible.agent.tools.publish import Publish
from crucible.agent.tools.python import Python
from crucible.agent.tools.read import Read
from crucible.agent.tools.write import Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Tools that neither come nor go."""

    these: tuple[Tool, ...]

    async def tools(self) -> tuple[Tool, ...]:
        return self.these


def builtin_tools() -> Toolset:
    return Fixed(
        these=(
            Bash(), Read(), Write(), EditTool(), Grep(), GlobTool(), Ls(), Python(), Publish(),
        )
    )  # fmt: skip
