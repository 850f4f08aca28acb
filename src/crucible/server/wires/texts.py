"""A command's output as text, for wires whose messages carry no bytes."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Past
from crucible.sandbox.session import Channel, Chunk
from crucible.sandbox.watching import Starts

_HEARD = (Channel.OUTPUT, Channel.ERRORS)


class Decoding:
    """Bytes that are no text are replaced. A character whose bytes come in two pieces is told whole."""

    def __init__(self) -> None:
        self._decoders = {
            channel: codecs.getincrementaldecoder("utf-8")("replace") for channel in _HEARD
        }

    def decode(self, chunk: Chunk) -> str:
        return self._decoders[chunk.channel].decode(chunk.data)

    def rest(self, channel: Channel) -> str:
        """What was held back, at the end."""
        return self._decoders[channel].decode(b"", True)


async def follow_text(
    command: Execution | Past, starts: Starts | None = None
) -> AsyncGenerator[tuple[Channel, str], None]:
    decoding = Decoding()
    async with aclosing(command.follow(starts)) as chunks:
        async for chunk in chunks:
            if text := decoding.decode(chunk):
                yield chunk.channel, text
    for channel in _HEARD:
        if text := decoding.rest(channel):
            yield channel, text


def text_of(chunks: Iterable[Chunk], channel: Channel) -> str:
    """What one channel said, of what is kept."""
    data = b"".join(chunk.data for chunk in chunks if chunk.channel is channel)
    return data.decode(errors="replace")
