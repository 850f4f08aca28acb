"""Commands over HTTP in a running sandbox: waited for, streamed, detached, found again."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.server.conftest import Server

pytestmark = pytest.mark.vm


def events_in(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(kind, number, data) of each event."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in fields:
            found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return found


def said(events: list[tuple[str, str, dict[str, Any]]], channel: str = "output") -> str:
    return "".join(data["text"] for kind, _, data in events if kind == channel)


async def execute(client: httpx.AsyncClient, box: str, *argv: str, **fields: Any) -> dict[str, Any]:
    answer = await client.post(f"/api/v1/sandboxes/{box}/exec", json={"argv": list(argv), **fields})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_a_command_is_run_to_its_end(server: Server, box: str) -> None:
    async with server.client() as client:
        told = await execute(client, box, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (told["exit"]["status"], told["output"], told["errors"]) == (7, "out\n", "err\n")
    assert not told["output_truncated"]


async def test_its_output_is_told_as_events_and_can_be_read_again(server: Server, box: str) -> None:
    async with server.client() as client:
        answer = await client.post(
            f"/api/v1/sandboxes/{box}/exec/stream",
            json={"argv": ["sh", "-c", "cat; echo done >&2"], "input": "grüße\n"},
        )
        told = events_in(answer.text)
        assert [told[0][0], told[-1][0]] == ["started", "exit"]
        assert (said(told), said(told, "errors")) == ("grüße\n", "done\n")
        again = await client.get(
            f"/api/v1/sandboxes/{box}/commands/{told[0][2]['id']}/output",
            headers={"Last-Event-ID": "2.0"},
        )
        assert said(events_in(again.text)) == "üße\n"
        assert events_in(again.text)[-1][2]["exit"]["status"] == 0


async def test_a_detached_command_goes_on_and_is_followed(server: Server, box: str) -> None:
    async with server.client() as client:
        started = await client.post(
            f"/api/v1/sandboxes/{box}/commands",
            json={"argv": ["sh", "-c", "read line; echo got $line"], "wants_input": True},
        )
        assert started.status_code == 201, started.text
        at = f"/api/v1/sandboxes/{box}/commands/{started.json()['id']}"
        assert (await client.get(at)).json()["state"] == "running"
        assert (await client.post(f"{at}/input", content=b"it\n")).status_code == 204
        told = events_in((await client.get(f"{at}/output")).text)
        assert said(told) == "got it\n"
        assert told[-1][2]["exit"]["status"] == 0
        assert (await client.get(at)).json()["state"] == "ended"
