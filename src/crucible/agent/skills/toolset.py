"""The skills of one session as tools: those that it may use, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from crucible.agent.skills.programs import Programs
from crucible.agent.skills.shelf import Shelf, Skill
from crucible.agent.skills.tools import ReadSkill, SkillTool
from crucible.agent.tools.base import Tool


class SkillToolset:
    """`wanted` are names or patterns; None is every skill. `broken` are those of them that cannot be used, and why."""

    def __init__(
        self, shelf: Shelf, programs: Programs, wanted: Sequence[str] | None = None
    ) -> None:
        self._shelf = shelf
        self._programs = programs
        self._wanted = wanted
        self.broken: Mapping[str, str] = {}

    def skills(self) -> tuple[Skill, ...]:
        found, broken = self._shelf.look()
        self.broken = {name: why for name, why in broken.items() if self._is_wanted(name)}
        return tuple(skill for skill in found if self._is_wanted(skill.name))

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

    def _is_wanted(self, name: str) -> bool:
        return self._wanted is None or any(fnmatchcase(name, one) for one in self._wanted)
