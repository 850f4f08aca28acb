"""Commands that no client watches: their output goes to the log until one asks for them again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from crucible.errors import CrucibleError
from crucible.sandbox.holding import Held
from crucible.sandbox.output_log import StreamLog
from crucible.sandbox.service.talk import Running, keep_to_log
from crucible.sandbox.session import Channel, Chunk, ExecInfo, Exit

CLAIM_S = 30.0

Starts = dict[Channel, int]
Ended = Callable[["Unwatched", Exit | None], None]


class Unwatched:
    """One command. `ended` is called when it needs no keeping any more, unless it was claimed.

    A command that had a client when its holder died stands still for that client first: what the
    client has not got is then still with the guest, however much it is.
    """

    def __init__(
        self,
        held: Held,
        source: Running | ExecInfo,
        kept: StreamLog,
        *,
        ended: Ended,
        patience_s: float = 0.0,
    ) -> None:
        self.held = held
        self.kept = kept
        self.stream = kept.stream
        self._info = source if isinstance(source, ExecInfo) else None
        self._running = source if isinstance(source, Running) else None
        self._attaching = asyncio.Lock()
        self._ended = ended
        self._keeping = asyncio.create_task(self._keep(patience_s))

    async def claim(self, starts: Starts) -> tuple[Running, list[Chunk]]:
        """The command, and what was said from `starts` on up to where it goes on by itself."""
        async with self._attaching:
            self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        if self._running is None:
            return await self._attach(starts), []
        return self._running, self.kept.since(starts)

    async def close(self) -> None:
        """Leaves the command as it is."""
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)

    async def _keep(self, patience_s: float) -> None:
        exit: Exit | None = None
        with self.held.used(), contextlib.suppress(CrucibleError):
            await asyncio.sleep(patience_s)
            if self._running is None:
                async with self._attaching:
                    await self._attach(self.kept.ends)
            if self._running is not None:
                exit = await keep_to_log(self._running)
        self._ended(self, exit)

    async def _attach(self, starts: Starts) -> Running:
        if self._info is None:
            raise LookupError(self.stream)
        process = await self.held.machine.attach(
            self._info,
            output_offset=starts[Channel.OUTPUT],
            errors_offset=starts[Channel.ERRORS],
        )
        self._running = Running.under(self.held.record.spec, process, self.kept)
        return self._running
