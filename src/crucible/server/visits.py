"""Requests that are being answered, each with what its caller came by: when that ends, so do they.

What ends a session or a token in this program looks at once. Users are disabled and tokens revoked from the command
line, too, and both end by themselves: as long as anybody is inside, it is looked now and then.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager

from crucible.errors import CredentialEnded, CrucibleError
from crucible.server.callers import Caller
from crucible.server.passage import Passage

LOOK_EVERY_S = 2.0

# Those of the callers whose session or token is still good for what they came with.
FindGood = Callable[[Collection[Caller]], Awaitable[Collection[Caller]]]


class Visits:
    def __init__(self, find_good: FindGood) -> None:
        self._find_good = find_good
        self._inside: set[Passage] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def inside(self, passage: Passage) -> Iterator[None]:
        if not passage.caller.can_end:
            yield
            return
        self._inside.add(passage)
        self._look_later()
        try:
            yield
        finally:
            self._inside.discard(passage)

    async def look(self, spared: Passage | None = None) -> None:
        """Ends what came by something that is good no more. Whoever ended their own is still answered: `spared`."""
        if spared is not None:
            self._inside.discard(spared)
        passages = list(self._inside)
        if not passages:
            return
        good = await self._find_good({passage.caller for passage in passages})
        for passage in passages:
            if passage in self._inside and passage.caller not in good:
                self._inside.discard(passage)
                passage.end(CredentialEnded())

    async def close(self) -> None:
        self._inside.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)

    def _look_later(self) -> None:
        if self._timer is None and self._inside:
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._begin_to_look)

    def _begin_to_look(self) -> None:
        self._timer = None
        if self._inside:
            self._looking = asyncio.create_task(self._look_again())

    async def _look_again(self) -> None:
        try:
            await self.look()
        except CrucibleError:
            # A database that does not answer ends nobody's work; the next look may find it again.
            traceback.print_exc()
        finally:
            self._look_later()
