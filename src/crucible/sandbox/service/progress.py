"""Progress of long work goes to the client whose request caused it, from wherever it is reported."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import ContextVar

from crucible.errors import CrucibleError
from crucible.images.report import NOTICE
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
        if stage == NOTICE:
            loop.call_soon_threadsafe(_begin, lambda: client.notice(detail))
        else:
            loop.call_soon_threadsafe(_begin, lambda: client.progress(stage, detail))


def noticing(client: Conversation) -> Callable[[str], None]:
    """Notices for a client, from the loop that serves it."""
    return lambda text: _begin(lambda: client.notice(text))


def _begin(send: Callable[[], Coroutine[None, None, None]]) -> None:
    task = asyncio.get_running_loop().create_task(_send(send))
    _sending.add(task)
    task.add_done_callback(_sending.discard)


async def _send(send: Callable[[], Coroutine[None, None, None]]) -> None:
    with contextlib.suppress(CrucibleError):
        await send()
