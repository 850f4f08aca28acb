"""Which protocol this is, and the two frames by which host and guest meet."""

from __future__ import annotations

from typing import Final, NamedTuple

from crucible.errors import ProtocolBroken
from crucible.wire.frames import MAGIC, NONCE_BYTES, Kind, encode
from crucible.wire.values import Reader, Writer

GENERATION: Final = 1
STATES: Final = ("sealed", "live", "frozen")


class Sync(NamedTuple):
    nonce: bytes
    generation: int = GENERATION

    def encode(self) -> bytes:
        writer = Writer()
        writer.raw(MAGIC + self.nonce)
        writer.u32(self.generation)
        return writer.body()

    @classmethod
    def decode(cls, payload: bytes) -> Sync:
        reader = _after_magic(payload)
        sync = cls(reader.raw(NONCE_BYTES), reader.u32())
        reader.end()
        return sync

    def frame(self) -> bytes:
        return encode(Kind.SYNC, 0, self.encode())


class Hello(NamedTuple):
    nonce: bytes
    generation: int
    next_stream: int
    state: int
    agent: str

    def encode(self) -> bytes:
        writer = Writer()
        writer.raw(MAGIC + self.nonce)
        writer.u32(self.generation)
        writer.u32(self.next_stream)
        writer.u8(self.state)
        writer.text(self.agent)
        return writer.body()

    @classmethod
    def decode(cls, payload: bytes) -> Hello:
        """Refuses another generation before it reads what only this one has to hold."""
        reader = _after_magic(payload)
        nonce, generation = reader.raw(NONCE_BYTES), reader.u32()
        if generation != GENERATION:
            raise ProtocolBroken(
                f"it speaks generation {generation} of the protocol, this host {GENERATION}"
            )
        hello = cls(nonce, generation, reader.u32(), reader.u8(), reader.text())
        reader.end()
        if hello.state >= len(STATES):
            raise ProtocolBroken(f"HELLO names state {hello.state}, which does not exist")
        if hello.next_stream == 0:
            raise ProtocolBroken("HELLO names 0 as the next stream")
        return hello


def _after_magic(payload: bytes) -> Reader:
    reader = Reader(payload)
    if reader.raw(len(MAGIC)) != MAGIC:
        raise ProtocolBroken("a SYNC or HELLO has the wrong magic")
    return reader
