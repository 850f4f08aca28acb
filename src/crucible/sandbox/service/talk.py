"""A command in a sandbox and the client that watches it: output out, input in, signals through."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from crucible.client import protocol
from crucible.client.protocol import BrokenFrame
from crucible.errors import BadSetting, CrucibleError
from crucible.sandbox.output_log import OutputLog, Piece
from crucible.sandbox.service.conversation import ClientGone, Conversation
from crucible.sandbox.session import Channel, Exit, Process

HANGUP_GRACE_S = 5.0
_SIGHUP = 1
_SIGKILL = 9


async def talk(process: Process, client: Conversation, log: OutputLog) -> Exit:
    """Until the command ends. Raises ClientGone, with the command still there, if its client leaves."""
    input_queue: asyncio.Queue[bytes | None] = asyncio.Queue()
    listening = asyncio.create_task(_listen(process, client, input_queue))
    feeding = asyncio.create_task(_feed(process, client, input_queue))
    sending = asyncio.create_task(_send_output(process, client, log))
    tasks = {listening, feeding, sending}
    try:
        waiting = {listening, sending}
        while sending in waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return await process.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def hang_up(process: Process) -> None:
    """What a command gets when its client left: a hangup, some time, the end."""
    with contextlib.suppress(CrucibleError, TimeoutError):
        await process.signal(_SIGHUP)
        async with asyncio.timeout(HANGUP_GRACE_S):
            await process.discard()
            await process.wait()
    with contextlib.suppress(CrucibleError):
        await process.forget()


async def keep_to_log(process: Process, log: OutputLog) -> Exit:
    """A command nobody watches: its output goes to the log, at the log's pace."""
    while (chunk := await process.read()) is not None:
        log.append(
            Piece(stream=process.stream, channel=chunk.channel, offset=chunk.offset, data=chunk.data)
        )
    exit = await process.wait()
    await process.forget()
    return exit


async def _send_output(process: Process, client: Conversation, log: OutputLog) -> None:
    while (chunk := await process.read(grants=False)) is not None:
        log.append(
            Piece(stream=process.stream, channel=chunk.channel, offset=chunk.offset, data=chunk.data)
        )
        await client.data(chunk.channel, chunk.data)
    await client.end(Channel.OUTPUT)
    await client.end(Channel.ERRORS)


async def _listen(
    process: Process, client: Conversation, input_queue: asyncio.Queue[bytes | None]
) -> None:
    while True:
        frame = await client.receive()
        if frame.kind == protocol.DATA:
            input_queue.put_nowait(frame.payload[1:])
        elif frame.kind == protocol.END:
            input_queue.put_nowait(None)
        elif frame.kind == protocol.TAKEN:
            channel, count = protocol.parse_taken(frame.payload)
            if channel not in (Channel.OUTPUT, Channel.ERRORS):
                raise BrokenFrame("There is no such output")
            process.grant(Channel(channel), count)
        else:
            await _control(process, protocol.parse_json(frame.payload))


async def _control(process: Process, message: dict[str, Any]) -> None:
    if (number := message.get("signal")) is not None:
        if not isinstance(number, int) or not 0 < number < 65:
            raise BadSetting(f"{number!r} is not a signal")
        await process.signal(number)
    if (size := message.get("resize")) is not None:
        rows, columns = (min(max(int(value), 1), 65535) for value in size)
        await process.resize(rows, columns)


async def _feed(
    process: Process, client: Conversation, input_queue: asyncio.Queue[bytes | None]
) -> None:
    with contextlib.suppress(ClientGone):
        while (data := await input_queue.get()) is not None:
            await process.write(data)
            await client.take_input(len(data))
        await process.close_input()
