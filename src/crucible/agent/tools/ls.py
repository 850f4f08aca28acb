"""The tool `ls`: what is in a directory, and in those below it."""

from __future__ import annotations

import stat
import time
from collections import deque
from typing import ClassVar

from crucible.agent.tools.base import Context, Outcome
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.paths import facts_of, missing, resolve
from crucible.agent.tools.wording import cut, quoted, size_words
from crucible.agent.tools.work import Asked, WorkTool, failed
from crucible.agent.workplace import WORKSPACE, FileFacts, Workplace
from crucible.errors import GuestRefused

MOST_ENTRIES = 500
_OWN_SIGNS = {"d": "/", "l": "@", "o": "?", "f": ""}
_TYPES = {"d": stat.S_IFDIR, "l": stat.S_IFLNK, "f": stat.S_IFREG, "o": stat.S_IFCHR}


class Ls(WorkTool):
    name: ClassVar = "ls"
    description: ClassVar = (
        "Lists a directory of the sandbox: directories end with /, links with @. With `depth` those below are listed "
        "too, as a tree. `long` adds mode, size and time."
    )
    parameters: ClassVar = (
        Parameter(name="path", kind="text", description="The directory", default=WORKSPACE),
        Parameter(
            name="depth",
            kind="whole",
            description="How many levels to show",
            default=1,
            least=1,
            most=10,
        ),
        Parameter(name="long", kind="flag", description="Show mode, size and time", default=False),
    )

    def subject(self, asked: Asked) -> str:
        return resolve(asked["path"])

    async def work(self, asked: Asked, context: Context) -> Outcome:
        path, workplace = resolve(asked["path"]), context.workplace
        facts = await facts_of(workplace, path)
        if facts is None:
            return failed(await missing(workplace, path))
        if facts.kind != "d":
            return Outcome(text=_long(facts, path))
        tree, is_cut = await _gather(workplace, path, asked["depth"])
        if not tree[path]:
            return Outcome(text=f"[{quoted(path)} is empty]")
        lines: list[str] = []
        _draw(tree, path, "", lines, is_long=asked["long"])
        if is_cut:
            lines.append(f"[cut after {MOST_ENTRIES} entries; name a deeper `path` or use `glob`]")
        return Outcome(text=cut("\n".join(lines)))


Tree = dict[str, tuple[FileFacts, ...]]


async def _gather(workplace: Workplace, root: str, depth: int) -> tuple[Tree, bool]:
    """Level by level, so that what is cut is what lies deepest."""
    tree: Tree = {}
    waiting = deque([(root, 1)])
    count = 0
    while waiting:
        path, level = waiting.popleft()
        try:
            entries = await workplace.list(path)
        except GuestRefused:
            if path == root:
                raise
            # It went meanwhile, or is not to be read.
            continue
        room = MOST_ENTRIES - count
        tree[path] = tuple(sorted(entries, key=lambda one: one.path))[: max(0, room)]
        count += len(entries)
        if count > MOST_ENTRIES:
            return tree, True
        if level < depth:
            waiting += [(one.path, level + 1) for one in tree[path] if one.kind == "d"]
    return tree, False


def _draw(tree: Tree, path: str, indent: str, lines: list[str], *, is_long: bool) -> None:
    for one in tree.get(path, ()):
        name = quoted(one.path.rsplit("/", 1)[-1]) + _OWN_SIGNS[one.kind]
        lines.append(indent + (_long(one, name) if is_long else name))
        _draw(tree, one.path, indent + "  ", lines, is_long=is_long)


def _long(facts: FileFacts, name: str) -> str:
    mode = stat.filemode(_TYPES[facts.kind] | (facts.mode & 0o7777))
    try:
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(facts.modified_at))
    except (OverflowError, ValueError, OSError):
        at = "?"
    return f"{mode} {size_words(facts.size):>10} {at} {name}"
