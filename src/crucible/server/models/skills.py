"""What is told of skills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from crucible.server.models.base import Told

if TYPE_CHECKING:
    from crucible.agent.skills.declared import DeclaredTool
    from crucible.agent.skills.shelf import Skill


class SkillToolTold(Told):
    name: str = Field(description="As policies know it")
    kind: Literal["script", "http", "binary"]
    description: str

    @classmethod
    def of(cls, skill: Skill, tool: DeclaredTool) -> SkillToolTold:
        from crucible.agent.skills.declared import Http, Script
        from crucible.agent.skills.tools import tool_name

        match tool.backend:
            case Script():
                kind: Literal["script", "http", "binary"] = "script"
            case Http():
                kind = "http"
            case _:
                kind = "binary"
        return cls(name=tool_name(skill.name, tool.name), kind=kind, description=tool.description)


class InstalledSkill(Told):
    """`files` are its files with their SHA-256; `problem` is why it cannot be used, empty if it can."""

    name: str
    description: str = ""
    origin: Literal["built in", "added"] = "added"
    license: str = ""
    compatibility: str = ""
    tools: list[SkillToolTold] = []
    files: dict[str, str] = {}
    added_at: float | None = None
    problem: str = ""

    @classmethod
    def of(cls, skill: Skill) -> InstalledSkill:
        return cls(
            name=skill.name,
            description=skill.document.description,
            origin=skill.origin,
            license=skill.document.license,
            compatibility=skill.document.compatibility,
            tools=[SkillToolTold.of(skill, tool) for tool in skill.tools],
            files=dict(skill.hashes),
            added_at=skill.added_at or None,
        )
