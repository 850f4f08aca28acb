"""Paths as a model writes them: relative ones begin in the workspace; each is absolute and plain afterwards."""

from __future__ import annotations

import os
import posixpath

from crucible.agent.tools.calling import short
from crucible.agent.tools.likeness import nearest
from crucible.agent.workplace import WORKSPACE, FileFacts, Workplace
from crucible.errors import BadToolCall, GuestRefused

LONGEST = 4096
_MOST_NAMES = 5000


def resolve(path: str, *, of: str = "path") -> str:
    """Every path of the sandbox may be named: the sandbox is what holds."""
    if not path:
        raise BadToolCall(f"`{of}` is empty: give a path, such as {WORKSPACE}/main.py")
    if "\0" in path:
        raise BadToolCall(f"`{of}` has a NUL character in it: {short(path)}")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise BadToolCall(f"`{of}` has characters that no name can have: {short(path)}") from None
    if len(encoded) > LONGEST:
        raise BadToolCall(f"`{of}` is {len(encoded)} bytes long; at most {LONGEST} can be used")
    if path == "~" or path.startswith("~/"):
        raise BadToolCall(f"`{of}` cannot begin with ~, which only a shell knows: use a whole path")
    # Two slashes at the front would stay two.
    return posixpath.normpath("/" + posixpath.join(WORKSPACE, path).lstrip("/"))


def relative(path: str, root: str = WORKSPACE) -> str:
    """As it is shown: within the workspace without its name."""
    inside = root.rstrip("/") + "/"
    return path[len(inside) :] if path.startswith(inside) else path


async def facts_of(workplace: Workplace, path: str) -> FileFacts | None:
    """None also where a parent is no directory."""
    try:
        return await workplace.stat(path)
    except GuestRefused as error:
        if error.guest_code in ("not-found", "not-a-directory"):
            return None
        raise


async def missing(workplace: Workplace, path: str) -> str:
    """That it does not exist, and what is near to it."""
    from crucible.agent.tools.wording import quoted

    parent, name = posixpath.split(path)
    facts = await facts_of(workplace, parent)
    while facts is None and parent != "/":
        parent, name = posixpath.split(parent)
        facts = await facts_of(workplace, parent)
    told = f"{quoted(path)} does not exist"
    if facts is None or facts.kind != "d":
        return told + "."
    names = [posixpath.basename(one.path) for one in await workplace.list(parent)][:_MOST_NAMES]
    close = nearest(name, names, most=3, least=0.4)
    if close:
        shown = ", ".join(quoted(posixpath.join(parent, one)) for one in close)
        return f"{told}. Near to it: {shown}."
    if not names:
        return f"{told}, and {quoted(parent)} is empty."
    return f"{told}. {quoted(parent)} holds: {', '.join(map(quoted, sorted(names)[:20]))}."
