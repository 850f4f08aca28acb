"""A command followed for a caller: fed with its input, its output collected or told as events, ended as was asked."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing, nullcontext

from crucible.errors import CrucibleError, TooManyOnlookers
from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Past
from crucible.sandbox.session import Channel, Chunk
from crucible.sandbox.watching import Starts, beginnings
from crucible.server.models.commands import CommandFacts, Encoding, Ending, LimitMet, Result
from crucible.server.problems import fields_of
from crucible.server.streaming import Numbering, event


async def feed(execution: Execution, data: bytes) -> None:
    """All of its input, and its end."""
    await execution.write(data)
    await execution.process.close_input()


async def collect(execution: Execution, input: bytes, *, most: int, encoding: Encoding) -> Result:
    """Runs it to its end. Of each channel the first `most` bytes are kept, the rest is dropped."""
    feeding = asyncio.ensure_future(feed(execution, input)) if input else None
    kept = {Channel.OUTPUT: bytearray(), Channel.ERRORS: bytearray()}
    sizes = {Channel.OUTPUT: 0, Channel.ERRORS: 0}
    try:
        async with aclosing(execution.follow()) as following:
            async for chunk in following:
                sizes[chunk.channel] += len(chunk.data)
                room = most - len(kept[chunk.channel])
                if room > 0:
                    kept[chunk.channel] += chunk.data[:room]
        exit = await execution.wait()
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
    return Result(
        id=execution.stream,
        exit=Ending.of(exit),
        limit=LimitMet.of(execution.limit),
        output=_encoded(kept[Channel.OUTPUT], encoding),
        errors=_encoded(kept[Channel.ERRORS], encoding),
        output_truncated=sizes[Channel.OUTPUT] > most,
        errors_truncated=sizes[Channel.ERRORS] > most,
        encoding=encoding,
    )


async def events(
    execution: Execution, request_id: str, input: bytes = b""
) -> AsyncGenerator[bytes, None]:
    """For who began it: `started`, then `output` and `errors`, then `exit` or, if its sandbox failed, `error`."""
    feeding = asyncio.ensure_future(feed(execution, input)) if input else None
    try:
        # Before anything is told: what is said meanwhile must not be lost.
        with execution.watching() as watcher:
            async with aclosing(
                _told(execution, watcher.chunks(), beginnings(), request_id)
            ) as told:
                async for one in told:
                    yield one
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def events_seen(
    command: Execution | Past, request_id: str, starts: Starts
) -> AsyncGenerator[bytes, None]:
    """The same for who looks on: it never slows the command. One that falls too far behind is told `error` and
    comes back with the number of the last event it read."""
    if isinstance(command, Past):
        onlooker, chunks = None, command.follow(starts)
    else:
        try:
            onlooker = command.look_on(starts)
        except TooManyOnlookers as error:
            yield event("error", fields_of(error, request_id))
            return
        chunks = onlooker.chunks()
    with nullcontext() if onlooker is None else closing(onlooker):
        async with aclosing(_told(command, chunks, starts, request_id)) as told:
            async for one in told:
                yield one


async def _told(
    command: Execution | Past,
    chunks: AsyncGenerator[Chunk, None],
    starts: Starts,
    request_id: str,
) -> AsyncGenerator[bytes, None]:
    numbering = Numbering(starts)
    try:
        yield event("started", CommandFacts.of(command).model_dump())
        async with aclosing(chunks) as following:
            async for chunk in following:
                if told := numbering.tell(chunk):
                    yield told
        if rest := numbering.rest():
            yield rest
        exit = await command.wait() if isinstance(command, Execution) else command.exit
        limit = LimitMet.of(command.limit) if isinstance(command, Execution) else None
        yield event(
            "exit",
            {
                "exit": None if exit is None else Ending.of(exit).model_dump(),
                "limit": None if limit is None else limit.model_dump(),
            },
        )
    except CrucibleError as error:
        yield event("error", fields_of(error, request_id))


def _encoded(data: bytearray, encoding: Encoding) -> str:
    if encoding == "base64":
        return base64.b64encode(data).decode()
    return data.decode(errors="replace")
