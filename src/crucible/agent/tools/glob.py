"""The tool `glob`: files by the patterns of their names, the newest first."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import ClassVar

from crucible.agent.tools.base import Context, Outcome
from crucible.agent.tools.globs import Glob, fixed_part
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.paths import facts_of, missing, resolve
from crucible.agent.tools.walking import walking
from crucible.agent.tools.wording import cut, quoted
from crucible.agent.tools.work import Asked, WorkTool, failed
from crucible.agent.workplace import WORKSPACE, FileFacts, Workplace

DEFAULT_LIMIT = 100
MOST_LIMIT = 1000
MOST_VISITED = 200_000
TIMEOUT_S = 60.0


class GlobTool(WorkTool):
    name: ClassVar = "glob"
    description: ClassVar = (
        "Finds files of the sandbox by name: `**/*.py`, `src/**/test_*.{ts,tsx}`. `*` stays within a directory, `**` "
        "goes through any number of them, hidden ones too. The newest come first. What is in .git is passed over."
    )
    parameters: ClassVar = (
        Parameter(
            name="pattern",
            kind="text",
            description="Relative to `path`, or absolute",
            is_required=True,
            least=1,
        ),
        Parameter(
            name="path",
            kind="text",
            description="The directory to look in",
            default=WORKSPACE,
        ),
        Parameter(
            name="limit",
            kind="whole",
            description="How many to give at most",
            default=DEFAULT_LIMIT,
            least=1,
            most=MOST_LIMIT,
        ),
    )

    def subject(self, asked: Asked) -> str:
        root, pattern = _begin(asked)
        Glob(pattern)
        return f"{root.rstrip('/')}/{pattern}"

    async def work(self, asked: Asked, context: Context) -> Outcome:
        root, pattern = _begin(asked)
        facts = await facts_of(context.workplace, root)
        if facts is None:
            return failed(await missing(context.workplace, root))
        if facts.kind != "d":
            return failed(f"{quoted(root)} is no directory.")
        found = _Found(limit=asked["limit"])
        # A sandbox may tell of a tree without an end.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                await _look(context.workplace, root, Glob(pattern), found)
        return Outcome(text=_told(found, f"{root.rstrip('/')}/{pattern}"))


@dataclass(slots=True, kw_only=True)
class _Found:
    """`newest` is a heap: its first is the oldest of those that are kept."""

    limit: int
    newest: list[tuple[float, str]] = field(default_factory=list)
    count: int = 0
    is_whole: bool = False

    def take(self, one: FileFacts) -> None:
        self.count += 1
        push = heapq.heappush if len(self.newest) < self.limit else heapq.heappushpop
        push(self.newest, (one.modified_at, one.path))


async def _look(workplace: Workplace, root: str, glob: Glob, found: _Found) -> None:
    visited, beneath = 0, len(root.rstrip("/")) + 1
    async with aclosing(walking(workplace, root)) as walk:
        async for one in walk:
            visited += 1
            if visited > MOST_VISITED:
                return
            if one.kind != "d" and glob.matches(one.path[beneath:]):
                found.take(one)
    found.is_whole = True


def _begin(asked: Asked) -> tuple[str, str]:
    """The directory from which on names are compared: as deep as the pattern itself says."""
    pattern: str = asked["pattern"]
    root = resolve(asked["path"])
    fixed = fixed_part(pattern)
    if pattern.startswith("/"):
        root = "/"
    rest = pattern[len(fixed) :] if fixed else pattern
    if fixed:
        root = resolve(f"{root.rstrip('/')}/{fixed}")
    return root, rest.lstrip("/")


def _told(found: _Found, what: str) -> str:
    notes = []
    if found.count > len(found.newest):
        notes.append(f"the newest {len(found.newest)} of {found.count}")
    if not found.is_whole:
        notes.append("not everything was looked at; name a deeper `path`")
    note = f"\n[{'; '.join(notes)}]" if notes else ""
    if not found.newest:
        return f"No file matches {quoted(what)}.{note}"
    return cut("\n".join(quoted(path) for _, path in sorted(found.newest, reverse=True))) + note
