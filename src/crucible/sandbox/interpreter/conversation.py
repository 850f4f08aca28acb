"""One request to a context and what it answers, over a connection into the sandbox."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from crucible.errors import ContextMissing, GuestRefused, InterpreterFailed
from crucible.sandbox.interpreter.events import MAX_EVENT, Event, Finished, parse_event
from crucible.sandbox.session import ByteStream, Session

LENGTH_BYTES: Final = 4


async def ask(session: Session, context: str, port: int, request: dict[str, Any]) -> ByteStream:
    """Raises ContextMissing if nobody is there any more."""
    try:
        stream = await session.dial(port)
    except GuestRefused:
        raise ContextMissing(context) from None
    try:
        body = json.dumps(request).encode()
        await stream.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
    except BaseException:
        await stream.close()
        raise
    return stream


async def events(stream: ByteStream) -> AsyncIterator[Event]:
    """Up to the last one. Raises InterpreterFailed if the context ended before."""
    held = bytearray()
    try:
        while True:
            while (event := _taken(held)) is None:
                piece = await stream.read()
                if not piece:
                    raise InterpreterFailed("The context ended in the middle of its code")
                held += piece
            yield event
            if isinstance(event, Finished):
                return
    except ConnectionResetError:
        raise InterpreterFailed("The context ended in the middle of its code") from None


def _taken(held: bytearray) -> Event | None:
    """The first whole event of what is held, which is taken out."""
    if len(held) < LENGTH_BYTES:
        return None
    length = int.from_bytes(held[:LENGTH_BYTES], "big")
    if length > MAX_EVENT:
        raise InterpreterFailed(
            f"A context told an event of {length} bytes; the most is {MAX_EVENT}"
        )
    end = LENGTH_BYTES + length
    if len(held) < end:
        return None
    event = parse_event(bytes(held[LENGTH_BYTES:end]))
    del held[:end]
    return event
