"""A command followed for a caller: fed with its input, its output collected or told as events, ended as was asked."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext

from crucible.errors import CrucibleError
from crucible.sandbox.execution import Execution, Starts, beginnings
from crucible.sandbox.executions import Past
from crucible.sandbox.session import Channel
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
    command: Execution | Past, request_id: str, starts: Starts | None = None, input: bytes = b""
) -> AsyncGenerator[bytes, None]:
    """`started`, then `output` and `errors`, then `exit` or, if its sandbox failed, `error`."""
    starts = starts or beginnings()
    numbering = Numbering(starts)
    feeding = None
    if input and isinstance(command, Execution):
        feeding = asyncio.ensure_future(feed(command, input))
    watching = command.watching(starts) if isinstance(command, Execution) else nullcontext()
    try:
        # Before anything is told: what is said meanwhile must not be lost.
        with watching as watcher:
            yield event("started", CommandFacts.of(command).model_dump())
            coming = command.follow(starts) if watcher is None else watcher.chunks()
            async with aclosing(coming) as following:
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
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


def _encoded(data: bytearray, encoding: Encoding) -> str:
    if encoding == "base64":
        return base64.b64encode(data).decode()
    return data.decode(errors="replace")
