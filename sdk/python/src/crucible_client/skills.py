"""What a server tells of skills. All of it is checked for shape when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crucible_client.reading import Reader

DOCUMENT, ARCHIVE = "text/markdown", "application/x-tar"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTool:
    """`name` is what policies know it by."""

    name: str
    kind: str
    description: str

    @classmethod
    def read(cls, told: Any) -> SkillTool:
        reader = Reader(told)
        return cls(
            name=reader.text("name"),
            kind=reader.text("kind"),
            description=reader.text("description"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillInfo:
    """`files` have the SHA-256 of each; `problem` is why it cannot be used, empty if it can."""

    name: str
    description: str
    origin: str
    license: str
    compatibility: str
    tools: tuple[SkillTool, ...]
    files: Mapping[str, str]
    added_at: float | None
    problem: str

    @classmethod
    def read(cls, told: Any) -> SkillInfo:
        reader = Reader(told)
        return cls(
            name=reader.text("name"),
            description=reader.text("description"),
            origin=reader.text("origin"),
            license=reader.text("license"),
            compatibility=reader.text("compatibility"),
            tools=tuple(SkillTool.read(one) for one in reader.items("tools")),
            files={path: str(digest) for path, digest in reader.table("files").items()},
            added_at=reader.number_or_none("added_at"),
            problem=reader.text("problem"),
        )
