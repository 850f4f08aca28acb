"""Progress of long work goes to the client whose request caused it, from wherever it is reported."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar

from crucible.errors import CrucibleError
from crucible.sandbox.service.conversation import Conversation

_listener: ContextVar[tuple[asyncio.AbstractEventLoop, Conversation] | None] = ContextVar(
    "progress_listener", default=None
)
_sending: set[asyncio.Task[None]] = set()


def listen(client: Conversation) -> None:
    """From here on, in this task and in what it starts, reports go to this client."""
    _listener.set((asyncio.get_running_loop(), client))


def to_client(stage: str, detail: str) -> None:
    """A `Report`. A client that has left misses it, and that is fine."""
    listener = _listener.get()
    if listener is not None:
        loop, client = listener
        loop.call_soon_threadsafe(_begin, client, stage, detail)


def _begin(client: Conversation, stage: str, detail: str) -> None:
    task = asyncio.get_running_loop().create_task(_send(client, stage, detail))
    _sending.add(task)
    task.add_done_callback(_sending.discard)


async def _send(client: Conversation, stage: str, detail: str) -> None:
    with contextlib.suppress(CrucibleError):
        await client.progress(stage, detail)
