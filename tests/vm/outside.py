"""A host outside, scripted: it takes and refuses what a machine asks for, as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from crucible.network.outlet import Ask, ByteStream, Outlet
from crucible.sandbox.holding import Held

Answer = Callable[[ByteStream, Ask], Awaitable[None]]


class Outside:
    """Answers every ask with `answer`, or refuses it where that is None. `asked` keeps them in order."""

    def __init__(self, outlet: Outlet, answer: Answer | None) -> None:
        self.outlet = outlet
        self.asked: list[Ask] = []
        self.failures: list[BaseException] = []
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        while True:
            ask = await self.outlet.next()
            self.asked.append(ask)
            task = asyncio.create_task(self._meet(ask))
            self._tasks.add(task)
            task.add_done_callback(self._met)

    async def _meet(self, ask: Ask) -> None:
        if self._answer is None:
            await self.outlet.refuse(ask)
        else:
            await self._answer(await self.outlet.take(ask), ask)

    def _met(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def outside(held: Held, answer: Answer | None = None) -> AsyncIterator[Outside]:
    """The network of a machine is on within the block."""
    outlet = await held.machine.outlet()
    host = Outside(outlet, answer)
    serving = asyncio.create_task(host.serve())
    try:
        yield host
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await host.end()
        await outlet.close()


async def tell_what_was_asked(stream: ByteStream, ask: Ask) -> None:
    await stream.write(f"{ask.name} {ask.address} {ask.port}".encode())
    await stream.close()


async def echo(stream: ByteStream, ask: Ask) -> None:
    while data := await stream.read():
        await stream.write(data)
    await stream.close()
