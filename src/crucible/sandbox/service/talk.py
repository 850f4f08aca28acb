"""A command in a sandbox and the client that watches it: output out, input in, signals through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from crucible.client import protocol
from crucible.errors import BadSetting, CrucibleError
from crucible.sandbox.output_log import StreamLog
from crucible.sandbox.service.conversation import ClientGone, Conversation
from crucible.sandbox.service.requests import whole
from crucible.sandbox.session import Channel, Chunk, Exit, Process
from crucible.sandbox.spec import SandboxSpec
from crucible.values import dataclass, replace

HANGUP_GRACE_S = 5.0
_FLUSH_S = 2.0
_SIGHUP = 1
_SIGKILL = 9
_LARGEST_SIGNAL = 64
_LARGEST_SIDE = 65535


class Detached(Exception):
    """The client leaves the command to itself."""


@dataclass(slots=True, kw_only=True)
class Running:
    """A command under way. Without `kept` its output is for its client alone."""

    process: Process
    kept: StreamLog | None
    input_taken: int = 0
    output_left: int = 0
    has_output_limit: bool = False

    @classmethod
    def under(cls, spec: SandboxSpec, process: Process, kept: StreamLog | None) -> Running:
        """With the limit on its output that its sandbox has."""
        said = 0 if kept is None else sum(kept.ends.values())
        return cls(
            process=process,
            kept=kept,
            input_taken=process.input_offset,
            output_left=max(0, (spec.output_mib << 20) - said),
            has_output_limit=spec.output_mib > 0,
        )

    def admit(self, data: bytes) -> bytes:
        """As much of its output as its limit still allows."""
        if not self.has_output_limit:
            return data
        admitted = data[: self.output_left]
        self.output_left -= len(admitted)
        return admitted

    async def end_of_output(self, chunk: Chunk, admitted: bytes) -> bool:
        """Whether the limit was passed; the command is then killed and what it still says dropped."""
        if len(admitted) == len(chunk.data):
            return False
        self.process.grant(chunk.channel, len(chunk.data) - len(admitted))
        await self.process.signal(_SIGKILL)
        await self.process.discard()
        return True


async def talk(running: Running, client: Conversation, backlog: Iterable[Chunk] = ()) -> Exit:
    """Until the command ends; `backlog` is what was said before and is read from the log.

    Raises ClientGone or Detached, with the command still there, if its client leaves.
    """
    words = _Words(running, client)
    tasks = {
        asyncio.create_task(words.listen()),
        asyncio.create_task(words.feed()),
        asyncio.create_task(words.acknowledge()),
        (telling := asyncio.create_task(words.tell(list(backlog)))),
    }
    waiting: set[asyncio.Task[Any]] = set(tasks)
    try:
        while telling in waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return telling.result()
    except (CrucibleError, Detached):
        words.settle()
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def hang_up(process: Process) -> None:
    """What a command gets when its client left: a hangup, some time, the end."""
    with contextlib.suppress(CrucibleError, TimeoutError):
        await process.signal(_SIGHUP)
        async with process.within(HANGUP_GRACE_S):
            await process.discard()
            await process.wait()
    with contextlib.suppress(CrucibleError):
        await process.forget()


async def keep_to_log(running: Running) -> Exit:
    """A command nobody watches: its output goes to the log, at the log's pace."""
    is_cut = False
    while not is_cut and (chunk := await running.process.read(grants=False)) is not None:
        data = running.admit(chunk.data)
        if running.kept is not None:
            running.kept.keep(replace(chunk, data=data))
        running.process.grant(chunk.channel, len(data))
        is_cut = await running.end_of_output(chunk, data)
    exit = await running.process.wait()
    await running.process.forget()
    return replace(exit, too_much_output=is_cut)


class _Words:
    """One client's part in a command."""

    def __init__(self, running: Running, client: Conversation) -> None:
        self._running = running
        self._process = running.process
        self._client = client
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue()
        # Bytes that the client has not taken yet: first those from the log, then the command's own.
        self._from_log = {Channel.OUTPUT: 0, Channel.ERRORS: 0}
        self._ungranted = {Channel.OUTPUT: 0, Channel.ERRORS: 0}
        client.tell_taken(self._taken)

    async def tell(self, backlog: list[Chunk]) -> Exit:
        for chunk in backlog:
            self._from_log[chunk.channel] += len(chunk.data)
            await self._client.data(chunk.channel, chunk.data)
        is_cut = False
        while not is_cut and (chunk_now := await self._process.read(grants=False)) is not None:
            data = self._running.admit(chunk_now.data)
            self._ungranted[chunk_now.channel] += len(data)
            if self._running.kept is not None:
                self._running.kept.keep(replace(chunk_now, data=data))
            await self._client.data(chunk_now.channel, data)
            is_cut = await self._running.end_of_output(chunk_now, data)
        await self._client.end(Channel.OUTPUT)
        await self._client.end(Channel.ERRORS)
        return replace(await self._process.wait(), too_much_output=is_cut)

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
                    await self._process.close_input()
                else:
                    await self._process.write(data)
                    self._running.input_taken += len(data)
                self._input.task_done()

    async def acknowledge(self) -> None:
        """Until the guest has input for good, the client keeps it: we may die with what is on its way."""
        safe = self._running.input_taken
        with contextlib.suppress(ClientGone):
            while (now := await self._process.safe_input(safe)) > safe:
                await self._client.take_input(now - safe)
                safe = now

    def settle(self) -> None:
        """What the client did not take it never will: the command need not wait for it."""
        for channel, count in self._ungranted.items():
            self._process.grant(channel, count)
            self._ungranted[channel] = 0

    async def _control(self, message: dict[str, Any]) -> None:
        if (number := message.get("signal")) is not None:
            await self._process.signal(whole(number, "signal", 1, _LARGEST_SIGNAL))
        if (size := message.get("resize")) is not None:
            if not isinstance(size, list) or len(size) != 2:
                raise BadSetting("A size has two sides")
            rows, columns = (whole(side, "side", 0, _LARGEST_SIDE) for side in size)
            await self._process.resize(max(rows, 1), max(columns, 1))
        if message.get("detach") is True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_S):
                    await self._input.join()
            raise Detached

    def _taken(self, number: int, count: int) -> None:
        channel = Channel(number)
        from_log = min(count, self._from_log[channel])
        self._from_log[channel] -= from_log
        granted = count - from_log
        if granted:
            self._ungranted[channel] -= granted
            self._process.grant(channel, granted)
