"""Those who look on and do not read, and those who send what nobody takes."""

from __future__ import annotations

import asyncio
import json
import socket
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import until
from tests.server.scripted import PlayedProcess, Staged, new_box
from tests.server.test_commands import events_in, said
from tests.server.test_terminals import at, start

from crucible.sandbox import execution, watching
from crucible.server.tokens import Scope
from crucible.wire.frames import WINDOW_BYTES

BLOCK = b"x" * 65_535 + b"\n"
BLOCKS = 96


async def flood(process: PlayedProcess) -> int:
    """Six megabytes, of which the log keeps all; it begins when it is told to."""
    await process.hear()
    for _ in range(BLOCKS):
        await process.say(BLOCK)
    return 0


async def stall(process: PlayedProcess) -> int:
    """Never takes its input."""
    return await process.for_ever()


def deaf_reader(staged: Staged, path: str) -> socket.socket:
    """Asks with a token that may only look, has hardly any room, and reads nothing."""
    where = urlsplit(staged.url)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((where.hostname, where.port))
    sock.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n"
        f"Authorization: Bearer {staged.token(Scope.READ)}\r\n\r\n".encode()
    )
    return sock


async def all_of(sock: socket.socket) -> str:
    sock.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        return _unchunked(await reader.read())
    finally:
        writer.close()


def _unchunked(data: bytes) -> str:
    _, _, rest = data.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return body.decode()


async def test_who_does_not_read_holds_nobody_back_and_can_come_back(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_BEHIND_BYTES", 1 << 18)
    staged.backend.parts["flood"] = flood
    box = await new_box(staged)
    asked = {"argv": ["flood"], "wants_input": True}
    async with staged.client() as client:
        begun = await client.post(f"/api/v1/sandboxes/{box}/commands", json=asked)
        path = f"/api/v1/sandboxes/{box}/commands/{begun.json()['id']}"
        record = staged.domain.manager.records.find(box)
        (command,) = staged.domain.executions.running(record)
        with deaf_reader(staged, f"{path}/output") as deaf:
            await until(lambda: len(command._onlookers) == 1)
            await client.post(f"{path}/input", content=b"go")
            # Nobody else watches, and the command ends all the same.
            assert (await client.post(f"{path}/wait")).json()["state"] == "ended"
            told = events_in(await all_of(deaf))
        assert (told[-1][0], told[-1][2]["code"]) == ("error", "fell-behind")
        last = [number for kind, number, _ in told if kind == "output"][-1]
        again = await client.get(f"{path}/output", headers={"Last-Event-ID": last})
    rest = events_in(again.text)
    assert rest[-1][2]["exit"]["status"] == 0
    assert said(told) + said(rest) == (BLOCK * BLOCKS).decode()


async def test_who_began_a_command_gets_all_of_it_whoever_looks_on(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_BEHIND_BYTES", 1 << 18)
    staged.backend.parts["flood"] = flood
    box = await new_box(staged)
    async with staged.client() as client:
        asked = {"argv": ["flood"], "input": "go"}
        streaming = client.stream("POST", f"/api/v1/sandboxes/{box}/exec/stream", json=asked)
        async with streaming as answer:
            lines = answer.aiter_lines()
            while not (line := await anext(lines)).startswith("data: "):
                pass
            number = json.loads(line.removeprefix("data: "))["id"]
            path = f"/api/v1/sandboxes/{box}/commands/{number}/output"
            with deaf_reader(staged, path):
                count = 0
                async for line in lines:
                    if line.startswith('data: {"text"'):
                        count += len(json.loads(line.removeprefix("data: "))["text"])
    assert count == len(BLOCK) * BLOCKS


async def test_only_so_many_may_look_on(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "MOST_ONLOOKERS", 1)
    box = await new_box(staged)
    async with staged.client() as client:
        begun = await client.post(f"/api/v1/sandboxes/{box}/commands", json={"argv": ["sleep"]})
        path = f"/api/v1/sandboxes/{box}/commands/{begun.json()['id']}/output"
        async with client.stream("GET", path) as first:
            assert (await anext(first.aiter_lines())).startswith("event: started")
            second = events_in((await client.get(path)).text)
            assert [data["code"] for _, _, data in second] == ["too-many-onlookers"]
        (command,) = staged.domain.executions.running(staged.domain.manager.records.find(box))
        await until(lambda: not command._onlookers)


async def test_input_that_a_terminal_does_not_take_waits_with_its_sender(staged: Staged) -> None:
    staged.backend.parts["stall"] = stall
    box = await new_box(staged)
    async with staged.client() as client, at(staged, f"{box}/terminal") as terminal:
        await terminal.send(start("stall"))
        number = json.loads(await terminal.recv())["command"]["id"]

        async def send() -> None:
            for _ in range(1024):
                await terminal.send(b"k" * 65_536)

        sending = asyncio.create_task(send())
        process = staged.process(box)
        await until(lambda: process.most_waiting >= WINDOW_BYTES)
        # Others are served meanwhile, and what was sent stays where it was.
        for _ in range(20):
            assert (await client.get("/api/v1/version")).status_code == 200
        assert not sending.done()
        assert process.most_waiting < 2 * WINDOW_BYTES
        await client.delete(f"/api/v1/sandboxes/{box}/commands/{number}")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
