"""Commands over HTTP in a running sandbox: waited for, streamed, detached, found again."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.server.conftest import Server, until

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


@pytest.mark.parametrize("fate, state", [("kill", "ended"), ("detach", "running")])
async def test_a_command_whose_caller_goes_has_the_fate_that_was_asked_for(
    server: Server, box: str, fate: str, state: str
) -> None:
    async with server.client() as client:
        asked = {"argv": ["sh", "-c", "echo on; sleep 600"], "on_disconnect": fate}
        at = f"/api/v1/sandboxes/{box}"
        async with client.stream("POST", f"{at}/exec/stream", json=asked) as answer:
            told = ""
            async for text in answer.aiter_text():
                told += text
                if said(events_in(told)) == "on\n":
                    break
        number = events_in(told)[0][2]["id"]
        record = server.domain.manager.records.find(box)

        def is_running() -> bool:
            return number in {one.stream for one in server.domain.executions.running(record)}

        if fate == "kill":
            await until(lambda: not is_running())
        # One that is let go of is noted down as such, and goes on.
        else:
            (one,) = [
                one for one in server.domain.executions.running(record) if one.stream == number
            ]
            await until(lambda: one.facts["detached"] is True)
        assert (await client.get(f"{at}/commands/{number}")).json()["state"] == state
        assert (await client.delete(f"{at}/commands/{number}")).status_code == 204


async def test_output_larger_than_any_buffer_comes_whole(server: Server, box: str) -> None:
    size = 24 << 20
    script = f"head -c {size} /dev/zero | tr '\\0' a"
    count = 0
    async with (
        server.client() as client,
        client.stream(
            "POST", f"/api/v1/sandboxes/{box}/exec/stream", json={"argv": ["sh", "-c", script]}
        ) as answer,
    ):
        async for line in answer.aiter_lines():
            if line.startswith('data: {"text"'):
                count += len(json.loads(line.removeprefix("data: "))["text"])
    assert count == size


async def test_what_is_too_much_for_an_answer_is_cut_and_told(server: Server, box: str) -> None:
    async with server.client() as client:
        told = await execute(client, box, "sh", "-c", "echo 12345; echo x >&2", max_output_bytes=3)
        assert (told["output"], told["output_truncated"]) == ("123", True)
        assert (told["errors"], told["errors_truncated"]) == ("x\n", False)
        wrong = await client.post(f"/api/v1/sandboxes/{box}/exec", json={"argv": ["nosuchprogram"]})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "command-not-found")
        missing = await client.get(f"/api/v1/sandboxes/{box}/commands/999999")
        assert (missing.status_code, missing.json()["code"]) == (404, "command-missing")
