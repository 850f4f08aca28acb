"""The tool `glob`: files by the patterns of their names, the newest first."""

from __future__ import annotations

import heapq
from contextlib import aclosing
from typing import ClassVar

from crucible.agent.tools.base import Context, Outcome
from crucible.agent.tools.globs import Glob, fixed_part
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.paths import facts_of, missing, resolve
from crucible.agent.tools.walking import walking
from crucible.agent.tools.wording import cut, quoted
from crucible.agent.tools.work import Asked, WorkTool, failed
from crucible.agent.workplace import WORKSPACE

DEFAULT_LIMIT = 100
MOST_LIMIT = 1000
MOST_VISITED = 200_000


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
        glob, visited, found = Glob(pattern), 0, 0
        newest: list[tuple[float, str]] = []
        async with aclosing(walking(context.workplace, root)) as walk:
            async for one in walk:
                visited += 1
                if visited > MOST_VISITED:
                    break
                if one.kind == "d" or not glob.matches(one.path[len(root.rstrip("/")) + 1 :]):
                    continue
                found += 1
                push = heapq.heappush if len(newest) < asked["limit"] else heapq.heappushpop
                push(newest, (one.modified_at, one.path))
        return Outcome(text=_told(newest, found, visited, f"{root.rstrip('/')}/{pattern}"))


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


def _told(newest: list[tuple[float, str]], found: int, visited: int, what: str) -> str:
    notes = []
    if found > len(newest):
        notes.append(f"the newest {len(newest)} of {found}")
    if visited > MOST_VISITED:
        notes.append(f"only the first {MOST_VISITED} entries were looked at; name a deeper `path`")
    note = f"\n[{'; '.join(notes)}]" if notes else ""
    if not newest:
        return f"No file matches {quoted(what)}.{note}"
    return cut("\n".join(quoted(path) for _, path in sorted(newest, reverse=True))) + note
