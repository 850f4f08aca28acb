"""One command in a sandbox of its own, over HTTP."""

from __future__ import annotations

import pytest
from tests.server.conftest import Server, until
from tests.server.test_commands import events_in, said

pytestmark = pytest.mark.vm

SETTINGS = {"network": "off"}


async def test_a_run_answers_when_nothing_is_left(server: Server) -> None:
    async with server.client() as client:
        answer = await client.post(
            "/api/v1/run",
            json={"argv": ["cat"], "input": "AAEC", "input_encoding": "base64", "encoding": "base64",
                  "settings": SETTINGS},
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
        assert (answer.json()["output"], answer.json()["exit"]["status"]) == ("AAEC", 0)
        assert server.domain.manager.records.sandboxes() == []


async def test_a_run_is_told_as_events(server: Server) -> None:
    async with server.client() as client:
        answer = await client.post(
            "/api/v1/run/stream", json={"argv": ["echo", "hi"], "settings": SETTINGS}
        )
    told = events_in(answer.text)
    assert (said(told), told[-1][0], told[-1][2]["exit"]["status"]) == ("hi\n", "exit", 0)


async def test_an_image_that_cannot_be_had_is_an_answer(server: Server) -> None:
    asked = {"argv": ["true"], "settings": {"image": "registry.invalid/none:1"}}
    async with server.client() as client:
        answer = await client.post("/api/v1/run", json=asked)
        assert (answer.status_code, answer.json()["code"]) == (404, "image-missing")
        told = events_in((await client.post("/api/v1/run/stream", json=asked)).text)
        assert [(kind, data["code"]) for kind, _, data in told] == [("error", "image-missing")]


async def test_a_caller_that_goes_takes_the_sandbox_along(server: Server) -> None:
    async with server.client() as client:
        body = {"argv": ["sh", "-c", "echo on; sleep 600"], "settings": SETTINGS}
        async with client.stream("POST", "/api/v1/run/stream", json=body) as answer:
            async for line in answer.aiter_lines():
                if "on" in line and line.startswith("data: ") and "text" in line:
                    break
    records = server.domain.manager.records
    await until(lambda: not records.sandboxes())
