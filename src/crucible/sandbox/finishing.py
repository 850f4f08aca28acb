"""Cleaning up that must come to its end, whoever gives up waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

DEADLINE_S = 30.0


async def finish(work: Coroutine[Any, Any, None], *, deadline_s: float = DEADLINE_S) -> None:
    """Runs the work to its end even if the caller is cancelled meanwhile; that is raised afterwards."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    last = loop.time() + deadline_s
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and loop.time() < last:
        try:
            await asyncio.wait({task}, timeout=last - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if cancelled is not None:
        raise cancelled
    task.result()
