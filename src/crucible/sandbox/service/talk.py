"""A command in a sandbox and the client that watches it: output out, input in, signals through."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from crucible.client import protocol
from crucible.errors import BadSetting
from crucible.sandbox.service.conversation import ClientGone, Conversation
from crucible.sandbox.service.requests import whole
from crucible.sandbox.session import Channel, Exit
from crucible.sandbox.watching import Watcher

_FLUSH_S = 2.0
_LARGEST_SIGNAL = 64
_LARGEST_SIDE = 65535


class Detached(Exception):
    """The client leaves the command to itself."""


async def talk(watcher: Watcher, client: Conversation) -> Exit:
    """Until the command ends. Raises ClientGone or Detached, with the command still there, if its client leaves."""
    words = _Words(watcher, client)
    tasks = {
        asyncio.create_task(words.listen()),
        asyncio.create_task(words.feed()),
        asyncio.create_task(words.acknowledge()),
        (telling := asyncio.create_task(words.tell())),
    }
    waiting: set[asyncio.Task[Any]] = set(tasks)
    try:
        while telling in waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return telling.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Words:
    """One client's part in a command."""

    def __init__(self, watcher: Watcher, client: Conversation) -> None:
        self._watcher = watcher
        self._execution = watcher.execution
        self._client = client
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue()
        client.tell_taken(lambda number, count: watcher.take(Channel(number), count))

    async def tell(self) -> Exit:
        while (chunk := await self._watcher.next()) is not None:
            await self._client.data(chunk.channel, chunk.data)
        await self._client.end(Channel.OUTPUT)
        await self._client.end(Channel.ERRORS)
        return await self._execution.wait()

    async def listen(self) -> None:
        while True:
            frame = await self._client.receive()
            if frame.kind == protocol.DATA:
                self._input.put_nowait(frame.payload[1:])
            elif frame.kind == protocol.END:
                self._input.put_nowait(None)
            else:
                await self._control(protocol.parse_json(frame.payload))

    async def feed(self) -> None:
        with contextlib.suppress(ClientGone):
            while True:
                data = await self._input.get()
                if data is None:
                    await self._execution.process.close_input()
                else:
                    await self._execution.write(data)
                self._input.task_done()

    async def acknowledge(self) -> None:
        """Until the guest has input for good, the client keeps it: we may die with what is on its way."""
        safe = self._execution.input_taken
        with contextlib.suppress(ClientGone):
            while (now := await self._execution.process.safe_input(safe)) > safe:
                await self._client.take_input(now - safe)
                safe = now

    async def _control(self, message: dict[str, Any]) -> None:
        if (number := message.get("signal")) is not None:
            await self._execution.process.signal(whole(number, "signal", 1, _LARGEST_SIGNAL))
        if (size := message.get("resize")) is not None:
            if not isinstance(size, list) or len(size) != 2:
                raise BadSetting("A size has two sides")
            rows, columns = (whole(side, "side", 0, _LARGEST_SIDE) for side in size)
            await self._execution.process.resize(max(rows, 1), max(columns, 1))
        if message.get("detach") is True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_S):
                    await self._input.join()
            raise Detached
