"""Callers that go in mid-stream, on the wires of other products: what they began goes with them."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from starlette.websockets import WebSocket
from tests.server.conftest import until
from tests.server.scripted import PlayedProcess, Staged, new_box

from crucible.server.passage import Passage
from crucible.server.problems import problem
from crucible.server.routes.terminals import open_terminal

SPEAKING = {
    "agentkernel": ("/sandboxes/box/exec/stream", {"command": ["talk"]}),
    "opensandbox": ("/opensandbox/sandboxes/box/execd/command", {"argv": ["talk"]}),
}


RUN = {"command": ["talk"], "image": "base", "profile": "restrictive"}


async def talk(process: PlayedProcess) -> int:
    await process.say(b"on\n")
    return await process.for_ever()


async def leave_after_a_word(staged: Staged, path: str, body: dict[str, Any]) -> None:
    async with staged.client() as client, client.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for text in answer.aiter_text():
            if "on" in text and ("output" in text or "stdout" in text):
                return
    raise AssertionError("nothing was said")


@pytest.mark.parametrize("wire", SPEAKING)
async def test_a_command_whose_caller_goes_is_hung_up_on(staged: Staged, wire: str) -> None:
    staged.backend.parts["talk"] = talk
    box = await new_box(staged)
    await leave_after_a_word(staged, *SPEAKING[wire])
    process = staged.process(box)
    await until(lambda: process.playing.done())
    assert process.signals == [1]
    record = staged.domain.manager.records.find(box)
    await until(lambda: not staged.domain.executions.running(record))
    # Nobody's sandbox goes with a caller.
    assert record.state == "running"


async def test_a_background_command_stays_when_its_caller_goes(staged: Staged) -> None:
    staged.backend.parts["talk"] = talk
    box = await new_box(staged)
    path, body = SPEAKING["opensandbox"]
    async with staged.client() as client:
        answer = await client.post(path, json={**body, "background": True})
        assert "execution_complete" in answer.text
    assert not staged.process(box).playing.done()


async def test_a_run_whose_caller_goes_leaves_nothing(staged: Staged) -> None:
    staged.backend.parts["talk"] = talk
    await leave_after_a_word(staged, "/run/stream", RUN)
    records = staged.domain.manager.records
    await until(lambda: not records.sandboxes())
    (machine,) = staged.backend.machines.values()
    assert machine.has_ended


async def test_a_sandbox_that_dies_during_a_call_is_told_on_every_wire(staged: Staged) -> None:
    staged.backend.parts["talk"] = talk
    for number, (path, body) in enumerate(SPEAKING.values()):
        box = await new_box(staged, f"box{number}")
        place = path.replace("/box/", f"/{box}/")
        told = ""
        async with staged.client() as client, client.stream("POST", place, json=body) as answer:
            async for text in answer.aiter_text():
                told += text
                if "on" in text and not staged.backend.machines[box].has_ended:
                    await staged.backend.machines[box].die("it was pulled out")
        assert "it was pulled out" in told
        assert "Traceback" not in told
        await until(partial(has_stopped, staged, box))


def has_stopped(staged: Staged, box: str) -> bool:
    return staged.domain.manager.records.find(box).state != "running"


async def two_words(process: PlayedProcess) -> int:
    await process.say(b"first")
    await process.say(b"\r\n")
    return await process.for_ever()


class Leaver:
    """One who leaves a terminal while something is told to it, as a server with much to do sees it: what it said
    last is read after the telling failed."""

    def __init__(self, *last_words: str) -> None:
        self._said = [{"type": "websocket.receive", "text": word} for word in last_words]
        self._has_gone = asyncio.Event()
        start = {"type": "start", "argv": ["talk"]}
        self._start = [
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "text": json.dumps(start)},
        ]

    async def receive(self) -> dict[str, Any]:
        if self._start:
            return self._start.pop(0)
        await self._has_gone.wait()
        return self._said.pop(0) if self._said else {"type": "websocket.disconnect", "code": 1000}

    async def send(self, message: Any) -> None:
        if self._has_gone.is_set() or message.get("bytes") == b"\r\n":
            self._has_gone.set()
            raise OSError("the client is gone")


@pytest.mark.parametrize(
    "last_words, signals", [(['{"type": "detach"}'], []), ([], [1])], ids=["stays", "goes"]
)
async def test_what_a_caller_said_before_it_went_counts(
    staged: Staged, last_words: list[str], signals: list[int]
) -> None:
    staged.backend.parts["talk"] = two_words
    box = await new_box(staged)
    leaver = Leaver(*last_words)
    scope: dict[str, Any] = {"type": "websocket", "headers": [], "state": {}}
    passage = Passage(scope, leaver.receive, leaver.send, "id", problem)
    socket = WebSocket(scope, passage.receive, passage.send)
    await open_terminal(socket, box, staged.domain)
    assert staged.process(box).signals == signals
