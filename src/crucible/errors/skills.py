"""What goes wrong with skills."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class BadSkill(Refused):
    """A skill that is not written as skills are."""

    code = "bad-skill"


class SkillMissing(Refused):
    """No skill of that name is installed."""

    code = "skill-missing"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is no skill {name!r}", hint="List those there are with `crucible skill list`"
        )


class SkillTaken(Refused):
    """A skill of that name is installed already."""

    code = "skill-taken"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is a skill {name!r} already",
            hint="Say that it is to be replaced (`crucible skill add --replace`), or remove it first",
        )


class SkillChanged(CrucibleError):
    """A file of an installed skill, or a program it fetches, is not the one that was agreed to."""

    code = "skill-changed"
