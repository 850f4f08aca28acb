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
_sending: dict[Conversation, set[asyncio.Task[None]]] = {}


def listen(client: Conversation) -> None:
    """From here on, in this task and in what it starts, reports go to this client."""
    _listener.set((asyncio.get_running_loop(), client))


def to_client(stage: str, detail: str) -> None:
    """A `Report`. A client that has left misses it, and that is fine."""
    listener = _listener.get()
    if listener is not None:
        loop, client = listener
        if stage == NOTICE:
            loop.call_soon_threadsafe(_begin, client, lambda: client.notice(detail))
        else:
            loop.call_soon_threadsafe(_begin, client, lambda: client.progress(stage, detail))


def noticing(client: Conversation) -> Callable[[str], None]:
    """Notices for a client, from the loop that serves it."""
    return lambda text: _begin(client, lambda: client.notice(text))


async def told(client: Conversation) -> None:
    """Returns when all that was reported to this client is on its way: nobody reads what comes after the answer."""
    # What was reported in this turn of the loop begins in the next.
    await asyncio.sleep(0)
    while sending := _sending.get(client):
        await asyncio.wait(sending)


def _begin(client: Conversation, send: Callable[[], Coroutine[None, None, None]]) -> None:
    task = asyncio.get_running_loop().create_task(_send(send))
    _sending.setdefault(client, set()).add(task)
    task.add_done_callback(lambda done: _sent(client, done))


def _sent(client: Conversation, task: asyncio.Task[None]) -> None:
    _sending[client].discard(task)
    if not _sending[client]:
        del _sending[client]


async def _send(send: Callable[[], Coroutine[None, None, None]]) -> None:
    with contextlib.suppress(CrucibleError):
        await send()
