"""Going through a tree of the sandbox, without what nobody looks for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from crucible.agent.workplace import FileFacts, Workplace

PASSED_OVER = "/.git/"


async def walking(workplace: Workplace, root: str) -> AsyncGenerator[FileFacts, None]:
    """Everything beneath but what a version control keeps for itself, unless that is what is walked through."""
    passes_over = PASSED_OVER not in f"{root}/"
    async with aclosing(workplace.walk(root)) as walk:
        async for one in walk:
            if not (passes_over and PASSED_OVER in one.path):
                yield one
