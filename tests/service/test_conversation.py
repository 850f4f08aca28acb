"""One client's connection, from the service's side: windows, floods, and frames that nobody sends."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crucible.client import protocol
from crucible.client.protocol import BrokenFrame
from crucible.sandbox.service.conversation import ClientGone, Conversation

Scene = Callable[[Conversation, socket.socket], Awaitable[None]]


def played(scene: Scene) -> None:
    """Plays a scene with a service and the socket of its client."""

    async def play() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        client = await Conversation.over(ours)
        try:
            async with asyncio.timeout(200):
                await scene(client, theirs)
        finally:
            await client.close()
            theirs.close()

    asyncio.run(play())


def send(theirs: socket.socket, data: bytes) -> Coroutine[Any, Any, None]:
    return asyncio.get_running_loop().sock_sendall(theirs, data)


async def receive(theirs: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await asyncio.get_running_loop().sock_recv(theirs, size - len(data))
        assert piece
        data += piece
    return data


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_whatever_comes_first_is_a_request_or_an_error(data: bytes) -> None:
    async def scene(client: Conversation, theirs: socket.socket) -> None:
        await send(theirs, data)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises((BrokenFrame, ClientGone)):
            await client.request(120)

    # Of 300 random bytes none are a frame with a JSON object but by a miracle.
    played(scene)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), _JSON.filter(lambda value: value == value)), st.data())
def test_a_request_arrives_however_it_is_cut(message: dict[str, Any], data: st.DataObject) -> None:
    frame = protocol.json_frame(message)
    cut = data.draw(st.integers(0, len(frame)))

    async def scene(client: Conversation, theirs: socket.socket) -> None:
        await send(theirs, frame[:cut])
        await asyncio.sleep(0)
        await send(theirs, frame[cut:])
        assert repr(await client.request(120)) == repr(message)

    played(scene)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">BI", protocol.JSON, protocol.MAX_PAYLOAD + 1),
        struct.pack(">BI", ord("X"), 0),
        protocol.data_frame(0, b"before a request"),
        struct.pack(">BI", protocol.JSON, 2) + b"[]",
        struct.pack(">BI", protocol.JSON, 1) + b"{",
        struct.pack(">BI", protocol.TAKEN, 1) + b"\1",
        protocol.taken_frame(1, 1),
        protocol.taken_frame(9, 0) + protocol.end_frame(0),
    ],
)
def test_frames_that_no_client_sends_are_told_as_such(frame: bytes) -> None:
    async def scene(client: Conversation, theirs: socket.socket) -> None:
        await send(theirs, frame)
        with pytest.raises(BrokenFrame):
            await client.request(120)

    played(scene)


def test_a_client_that_says_nothing_is_not_waited_for() -> None:
    async def scene(client: Conversation, theirs: socket.socket) -> None:
        with pytest.raises(BrokenFrame, match="No request came"):
            await client.request(0.01)

    played(scene)


def test_a_client_that_leaves_is_noticed_at_once() -> None:
    async def scene(client: Conversation, theirs: socket.socket) -> None:
        theirs.close()
        await client.gone()
        with pytest.raises(ClientGone):
            await client.receive()

    played(scene)


def test_input_is_acknowledged_as_it_is_taken() -> None:
    async def scene(client: Conversation, theirs: socket.socket) -> None:
        await send(theirs, protocol.data_frame(0, b"hello") + protocol.end_frame(0))
        assert [data async for data in client.inputs()] == [b"hello"]
        expected = protocol.taken_frame(protocol.INPUT, 5)
        assert await receive(theirs, len(expected)) == expected

    played(scene)


@pytest.mark.parametrize(
    "frame",
    [
        protocol.data_frame(0, bytes(60_000)),
        protocol.json_frame({"signal": 1}),
        protocol.end_frame(0),
    ],
    ids=["data", "messages", "ends"],
)
def test_a_flood_is_cut_off(frame: bytes) -> None:
    async def scene(client: Conversation, theirs: socket.socket) -> None:
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            await flood(client, theirs, frame)

    async def flood(client: Conversation, theirs: socket.socket, frame: bytes) -> None:
        await send(theirs, protocol.json_frame({}))
        for _ in range(3000):
            sending = asyncio.create_task(send(theirs, frame))
            leaving = asyncio.create_task(client.gone())
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if client_is_gone(leaving):
                sending.cancel()
                raise BrokenPipeError
            leaving.cancel()

    played(scene)


def client_is_gone(leaving: asyncio.Task[None]) -> bool:
    return leaving.done() and not leaving.cancelled()


def test_output_stays_within_the_window_and_goes_on_when_it_was_taken() -> None:
    size = protocol.WINDOW

    async def scene(client: Conversation, theirs: socket.socket) -> None:
        taken: list[tuple[int, int]] = []
        client.tell_taken(lambda channel, count: taken.append((channel, count)))
        sending = asyncio.create_task(client.data(protocol.OUTPUT, bytes(size + 10)))
        await receive(theirs, protocol.HEADER_BYTES + 1 + size)
        await asyncio.sleep(0.05)
        assert not sending.done()
        other = asyncio.create_task(client.data(protocol.ERRORS, b"of the other"))
        await other
        await receive(theirs, protocol.HEADER_BYTES + 1 + len(b"of the other"))
        await send(theirs, protocol.taken_frame(protocol.OUTPUT, 10))
        await sending
        assert taken == [(protocol.OUTPUT, 10)]

    played(scene)


def test_whoever_waits_for_room_learns_that_the_client_left() -> None:
    async def scene(client: Conversation, theirs: socket.socket) -> None:
        sending = asyncio.create_task(client.data(protocol.OUTPUT, bytes(2 * protocol.WINDOW)))
        await receive(theirs, protocol.HEADER_BYTES + 1 + protocol.WINDOW)
        theirs.close()
        with pytest.raises(ClientGone):
            await sending

    played(scene)
