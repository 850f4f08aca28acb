"""Ends what nobody can have back: conversations that were thrown away, files that no turn used.

Nothing is remembered but in the database, so that a program that starts anew goes on where the last one stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Protocol

from crucible.conversations.conversations import Conversations
from crucible.errors import CrucibleError, RunMissing, SessionMissing

_EVERY_S = 60.0
REASON = "its conversation was deleted"
_log = logging.getLogger(__name__)


class Sessions(Protocol):
    """The sessions behind the conversations."""

    async def destroy(self, session: str) -> None:
        """With its sandbox. Raises SessionMissing."""
        ...

    async def all_ids(self) -> Iterable[str]: ...


class Eraser(Protocol):
    """What is recorded of them."""

    async def erase(
        self, run: str, names: Iterable[str] | None = None, *, reason: str = ""
    ) -> object:
        """All contents go, the record of what happened stays. Raises RunMissing."""
        ...


async def keep_clean(
    conversations: Conversations, sessions: Sessions, eraser: Eraser | None
) -> None:
    """Until it is cancelled."""
    while True:
        await sweep(conversations, sessions, eraser)
        await asyncio.sleep(_EVERY_S)


async def sweep(conversations: Conversations, sessions: Sessions, eraser: Eraser | None) -> None:
    """What fails is logged, and tried again the next time."""
    with _told("the conversations"):
        for one in await conversations.due():
            with _told(f"conversation {one.id}"):
                await _purge(conversations, sessions, eraser, one.id)
    with _told("conversations without a session"):
        # First what there is, then who may have it: one that is made meanwhile is in both.
        listed = await conversations.ids()
        known = set(await sessions.all_ids())
        for id in listed:
            if id not in known:
                await conversations.gone(id)
    with _told("uploads"):
        await conversations.uploads.sweep()


async def _purge(
    conversations: Conversations, sessions: Sessions, eraser: Eraser | None, id: str
) -> None:
    # The conversation itself goes last: until then it is found and gone on with.
    await conversations.uploads.remove_of(id)
    if eraser is not None:
        with contextlib.suppress(RunMissing):
            await eraser.erase(id, reason=REASON)
    try:
        await sessions.destroy(id)
    except SessionMissing:
        await conversations.gone(id)


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (CrucibleError, OSError) as error:
        _log.error("%s could not be cleaned up: %s", what, error)
