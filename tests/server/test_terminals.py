"""Terminals over WebSockets, with the real client library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.conftest import Server, until
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.vm


def at(server: Server, path: str, token: str | None = None) -> connect:
    url = server.url.replace("http://", "ws://") + f"/api/v1/sandboxes/{path}"
    headers = {"Authorization": f"Bearer {token or server.token()}"}
    # It would give up after ten seconds on a host that has much else to do.
    return connect(url, additional_headers=headers, open_timeout=120)


async def told_until(socket: ClientConnection, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        message = await socket.recv()
        if isinstance(message, bytes):
            seen += message
        elif json.loads(message)["type"] != "started":
            raise AssertionError(f"{words!r} were not among {seen!r} before {message}")
    return seen


async def ending(socket: ClientConnection) -> dict[str, Any]:
    while True:
        message = await socket.recv()
        if isinstance(message, str):
            told: dict[str, Any] = json.loads(message)
            if told["type"] in ("exit", "error"):
                return told


def start(*argv: str, **fields: object) -> str:
    return json.dumps({"type": "start", "argv": list(argv), **fields})


async def test_a_terminal_has_its_size_takes_keys_and_ends(server: Server, box: str) -> None:
    async with at(server, f"{box}/terminal") as socket:
        await socket.send(start("sh", rows=33, columns=101))
        await socket.send(b"stty size\n")
        await told_until(socket, b"33 101")
        await socket.send(json.dumps({"type": "resize", "rows": 44, "columns": 55}))
        # Sent after the size and taken in order.
        await socket.send(b"stty size; exit 5\n")
        await told_until(socket, b"44 55")
        assert (await ending(socket))["exit"]["status"] == 5


async def test_a_terminal_is_left_and_joined_again(server: Server, box: str) -> None:
    async with at(server, f"{box}/terminal") as socket:
        await socket.send(start("sh", "-c", "echo first; read x; echo got $x"))
        number = json.loads(await socket.recv())["command"]["id"]
        await told_until(socket, b"first")
        await socket.send(json.dumps({"type": "detach"}))
    async with at(server, f"{box}/commands/{number}/terminal") as socket:
        await told_until(socket, b"first")
        await socket.send(b"it\n")
        await told_until(socket, b"got it")
        assert (await ending(socket))["exit"]["status"] == 0


async def test_a_caller_that_goes_hangs_up(server: Server, box: str) -> None:
    async with at(server, f"{box}/terminal") as socket:
        await socket.send(start("sh", "-c", "echo on; sleep 600"))
        number = json.loads(await socket.recv())["command"]["id"]
        await told_until(socket, b"on")
    record = server.domain.manager.records.find(box)
    running = server.domain.executions.running
    await until(lambda: number not in {one.stream for one in running(record)})


@pytest.mark.parametrize(
    "first", ["{", "[]", '{"type": "start"}', '{"type": "start", "argv": [], "x": 1}']
)
async def test_what_is_no_beginning_is_told_and_closed(
    server: Server, box: str, first: str
) -> None:
    async with at(server, f"{box}/terminal") as socket:
        await socket.send(first)
        assert json.loads(await socket.recv())["error"]["code"] == "bad-request"
        with pytest.raises(ConnectionClosed):
            await socket.recv()


async def test_a_wrong_token_opens_no_terminal(server: Server, box: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with at(server, f"{box}/terminal", token="wrong"):
            pass
    assert refused.value.response.status_code == 401


async def test_a_sandbox_that_is_not_there_is_told(server: Server, box: str) -> None:
    async with at(server, "nosuch/terminal") as socket:
        await socket.send(start("sh"))
        assert json.loads(await socket.recv())["error"]["code"] == "sandbox-missing"
