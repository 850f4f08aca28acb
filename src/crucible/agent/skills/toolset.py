"""The skills of one session as tools: those that it may use, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from crucible.agent.skills.programs import Programs
from crucible.agent.skills.shelf import Shelf, Skill
from crucible.agent.skills.tools import ReadSkill, SkillTool
from crucible.agent.tools.base import Tool


class SkillToolset:
    """`wanted` are names or patterns; None is every skill."""

    def __init__(
        self, shelf: Shelf, programs: Programs, wanted: Sequence[str] | None = None
    ) -> None:
        self._shelf = shelf
        self._programs = programs
        self._wanted = wanted

    def skills(self) -> tuple[Skill, ...]:
        found = self._shelf.all()
        if self._wanted is None:
            return tuple(found)
        return tuple(
            skill
            for skill in found
            if any(fnmatchcase(skill.name, pattern) for pattern in self._wanted)
        )

    async def tools(self) -> tuple[Tool, ...]:
        skills = self.skills()
        if not skills:
            return ()
        of_skills = (
            SkillTool(skill=skill, declared=declared, programs=self._programs)
            for skill in skills
            for declared in skill.tools
        )
        return (ReadSkill(skills=skills), *of_skills)
