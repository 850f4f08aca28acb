"""What comes out of a sandbox as an event of a context is measured before it is believed."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import InterpreterFailed
from crucible.sandbox.interpreter.conversation import events
from crucible.sandbox.interpreter.events import Event, Finished, Printed, Raised, Shown, parse_event


class Pieces:
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, data: bytes) -> None: ...
    async def close_write(self) -> None: ...
    async def close(self) -> None: ...


def heard(pieces: list[bytes]) -> list[Event]:
    async def scene() -> list[Event]:
        return [event async for event in events(Pieces(pieces))]

    return asyncio.run(scene())


def framed(**event: object) -> bytes:
    body = json.dumps(event).encode()
    return len(body).to_bytes(4, "big") + body


END = framed(type="end", execution_count=1)


@given(st.integers(1, 40))
def test_events_come_through_whatever_the_pieces(size: int) -> None:
    data = framed(type="stdout", text="é\n") + framed(
        type="result", is_main=True, forms={"text": "1"}
    )
    data += framed(type="error", name="E", value="v", traceback="t") + END
    assert heard([data[at : at + size] for at in range(0, len(data), size)]) == [
        Printed(stream="stdout", text="é\n"),
        Shown(forms={"text": "1"}, is_main=True),
        Raised(name="E", value="v", traceback="t"),
        Finished(count=1),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0",
        END[:-1],
        b"\xff\xff\xff\xff",
        b"\0\x80\0\1",
        framed(type="stdout", text=1),
        framed(type="result", is_main=True, forms=[]),
        framed(type="result", is_main=True, forms={str(n): 1 for n in range(65)}),
        framed(type="result", is_main=True, forms={"n" * 256: 1}),
        framed(type="unknown"),
        b"\0\0\0\1[",
        b"\0\1\x86\xa0" + b"[" * 100_000,
    ],
)
def test_what_our_program_would_not_say_is_refused(data: bytes) -> None:
    with pytest.raises(InterpreterFailed):
        heard([data])


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    with suppress(InterpreterFailed):
        parse_event(data)
