"""MCP over the standard input and output of a program in a session's sandbox. What it writes is hostile."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from crucible.agent.workplace import Line
from crucible.errors import CrucibleError

LONGEST_MESSAGE = 8 << 20


@asynccontextmanager
async def guest_streams(line: Line) -> AsyncGenerator[TransportStreams, None]:
    """The streams that the protocol's own client works on. The line is closed when the block ends."""
    incoming_in, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_out = anyio.create_memory_object_stream[SessionMessage](0)

    async def hear() -> None:
        async with incoming_in:
            with contextlib.suppress(CrucibleError, anyio.BrokenResourceError):
                async for text in _messages(line):
                    await incoming_in.send(_read(text))

    async def speak() -> None:
        async with outgoing_out:
            async for message in outgoing_out:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await line.send(text.encode() + b"\n")
                except CrucibleError:
                    # It is gone; whoever waits for an answer sees the other stream end.
                    await incoming_in.aclose()
                    return

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(hear)
            group.start_soon(speak)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            for stream in (incoming_in, incoming, outgoing, outgoing_out):
                await stream.aclose()
            await line.close()


async def _messages(line: Line) -> AsyncGenerator[bytes, None]:
    """One at a time. A server that never ends its line is given up."""
    rest = bytearray()
    while data := await line.receive():
        rest += data
        *whole, rest = rest.split(b"\n")
        for text in whole:
            if text.strip():
                yield bytes(text)
        if len(rest) > LONGEST_MESSAGE:
            return


def _read(text: bytes) -> SessionMessage | Exception:
    try:
        message: Any = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError as error:
        return error
    return SessionMessage(message)
