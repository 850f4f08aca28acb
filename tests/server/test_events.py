"""What happens to sandboxes, told to whoever listens; requests that come twice; labels of images."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
from tests.server.conftest import Server, until
from tests.server.scripted import Staged, new_box

from crucible.server.once import KEPT_S
from crucible.server.tokens import Scope

KEY = {"Idempotency-Key": "k"}
EVENTS = "/api/v1/events/stream"


async def told(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    kind = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


async def test_what_becomes_of_a_sandbox_is_told_as_it_happens(staged: Staged) -> None:
    async with staged.client() as client, client.stream("GET", EVENTS) as answer:
        await until(lambda: bool(staged.domain.manager.records.listeners))
        events = told(answer)
        box = await new_box(staged)
        at = f"/api/v1/sandboxes/{box}"
        assert [(await anext(events))[0] for _ in range(2)] == ["create", "start"]
        await client.post(f"{at}/exec", json={"argv": ["true"]})
        kind, event = await anext(events)
        assert (kind, event["sandbox"], event["detail"]["argv"]) == ("exec", box, ["true"])
        await client.post(f"{at}/pause")
        await client.post(f"{at}/resume")
        await client.post(f"{at}/stop")
        await client.delete(at)
        kinds = [(await anext(events))[0] for _ in range(4)]
        assert kinds == ["pause", "resume", "stop", "remove"]
    await until(lambda: not staged.domain.manager.records.listeners)


async def test_a_sandbox_that_dies_is_told_with_why(staged: Staged) -> None:
    box = await new_box(staged)
    newest = staged.domain.manager.records.audit(1)[0]["number"]
    async with (
        staged.client() as client,
        client.stream("GET", EVENTS, headers={"Last-Event-ID": str(newest)}) as answer,
    ):
        await staged.backend.machines[box].die("it ran into a wall")
        kind, event = await anext(told(answer))
    assert (kind, event["detail"]["why"]) == ("end", "it ran into a wall")


async def test_of_two_removals_at_once_one_succeeds_and_one_finds_nothing(staged: Staged) -> None:
    box = await new_box(staged)
    async with staged.client() as one, staged.client() as other:
        path = f"/api/v1/sandboxes/{box}?force=true"
        answers = await asyncio.gather(one.delete(path), other.delete(path))
    assert sorted(answer.status_code for answer in answers) == [204, 404]
    assert staged.domain.manager.records.sandboxes() == []


async def test_a_volume_that_is_in_use_stays(staged: Staged) -> None:
    async with staged.client() as client:
        made = await client.post("/api/v1/volumes", json={"name": "data"})
        assert made.status_code == 201, made.text
        body = {"name": "box", "settings": {"network": "off", "mounts": ["data:/data:volume"]}}
        created = await client.post("/api/v1/sandboxes", json=body)
        assert created.status_code == 201, created.text
        refused = await client.delete("/api/v1/volumes/data")
        assert (refused.status_code, refused.json()["code"]) == (409, "volume-busy")
        await client.delete("/api/v1/sandboxes/box?force=true")
        answers = await asyncio.gather(*(client.delete("/api/v1/volumes/data") for _ in range(2)))
    assert sorted(answer.status_code for answer in answers) == [204, 404]


async def test_a_request_whose_server_died_is_not_done_again(staged: Staged) -> None:
    """As a server leaves it that is killed between doing and answering."""
    body = {"name": "box", "settings": {"network": "off"}}
    async with staged.client(Scope.RUN, **KEY) as client:
        assert (await client.post("/api/v1/sandboxes", json=body)).status_code == 201
        staged.store.write("UPDATE answers SET status = 0, body = ''")
        again = await client.post("/api/v1/sandboxes", json=body)
        assert (again.status_code, again.json()["code"]) == (409, "outcome-unknown")
        other = await client.post("/api/v1/sandboxes", json={**body, "name": "other"})
        assert (other.status_code, other.json()["code"]) == (409, "idempotency-key-reused")
        staged.store.write("UPDATE answers SET at = at - ?", KEPT_S)
        assert (await client.post("/api/v1/sandboxes", json=body)).json()["code"] == "name-taken"


async def test_what_failed_is_tried_again_with_the_same_key(bare: Server) -> None:
    body = {"name": "box", "settings": {"network": "off"}}
    async with bare.client(Scope.RUN, **KEY) as client:
        for _ in range(2):
            answer = await client.post("/api/v1/sandboxes", json=body)
            assert answer.json()["code"] == "image-missing"
    assert bare.store.read("SELECT * FROM answers") == []
