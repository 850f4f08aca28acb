"""Files for conversations: what is taken in, what is refused, where it ends up."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from tests.agent.scenes import Say, call
from tests.server.agent_stage import Stage
from tests.server.chatting import API, chat, ended, said, transcript, upload

from crucible.agent.messages import UserMessage
from crucible.conversations.conversations import Conversations
from crucible.conversations.limits import Limits
from crucible.server.routes import uploads as route

pytestmark = pytest.mark.usefixtures("run")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def kept(stage: Stage) -> Conversations:
    found = stage.scene.engine.chronicler
    assert isinstance(found, Conversations)
    return found


def limit(stage: Stage, **values: int) -> None:
    kept(stage).uploads.limits = replace(Limits(), **values)


def files_of(stage: Stage) -> list[str]:
    directory = stage.books.home / "uploads"
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


async def test_files_are_in_the_workspace_when_the_turn_starts(stage: Stage) -> None:
    stage.play(
        Say(calls=(call("bash", command="cat data.csv data-2.csv"),)),
        Say(text="Read."),
        Say(text="Again."),
    )
    async with stage.server.client() as http:
        answers = [await upload(http, "data.csv", text) for text in (b"a,b\n1,2\n", b"c,d\n")]
        told = [one.json() for one in answers]
        assert [one.status_code for one in answers] == [201, 201]
        assert (told[0]["name"], told[0]["size"], told[0]["media_type"]) == (
            "data.csv",
            8,
            "text/csv",
        )
        ids = [one["id"] for one in told]
        turn = await chat(http, "Plot this", intent="agent", attachments=ids)
        live = await ended(http, turn)
        began = live[0]["data"]
        assert began["prompt"] == "Plot this"
        assert began["attachments"] == [
            {"name": "data.csv", "size": 8, "media_type": "text/csv"},
            {"name": "data-2.csv", "size": 4, "media_type": "text/csv"},
        ]
        assert "data-2.csv" in live[1]["data"]["text"]
        result = next(one for one in live if one["kind"] == "result")
        assert result["data"]["text"] == "a,b\n1,2\nc,d"
        (prompt,) = [
            one for one in stage.scene.model.asked[0].messages if isinstance(one, UserMessage)
        ]
        assert "/workspace/data-2.csv" in prompt.text
        again = (await http.post(f"{API}/conversations/{turn['conversation']}/retry")).json()
        began = (await ended(http, again))[0]["data"]
        assert [one["name"] for one in began["attachments"]] == ["data.csv", "data-2.csv"]


async def test_a_picture_is_shown_to_the_model(stage: Stage) -> None:
    stage.play(Say(text="A dot."))
    async with stage.server.client() as http:
        id = (await upload(http, "dot.txt", PNG)).json()
        assert id["media_type"] == "image/png"
        await said(http, "What is it?", attachments=[id["id"]])
        (prompt,) = stage.scene.model.asked[0].messages
        assert isinstance(prompt, UserMessage)
        assert [one.media_type for one in prompt.pictures] == ["image/png"]


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "a/b",
        "a\\b",
        "..",
        ".",
        "",
        "CON",
        "nul.txt",
        "a\x00b",
        "a\x1bb",
        "photo\u202egnp.exe",
        "x" * 256,
        "é" * 128,
    ],
)
async def test_a_name_that_is_none_is_refused(stage: Stage, name: str) -> None:
    async with stage.server.client() as http:
        raw = name.encode()
        body = (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="'
            + raw.replace(b"\\", b"\\\\")
            + b'"\r\n\r\nx\r\n--b--\r\n'
        )
        answer = await http.post(
            f"{API}/upload",
            content=body,
            headers={"Content-Type": "multipart/form-data; boundary=b"},
        )
        assert answer.status_code in (400, 422), answer.text
        assert answer.json()["code"] in ("bad-file-name", "malformed-body")
        assert files_of(stage) == []


async def test_a_name_with_line_ends_makes_no_header(stage: Stage) -> None:
    async with stage.server.client() as http:
        answer = await upload(http, "a\r\nSet-Cookie: x=1\r\n.txt", b"x")
        assert answer.status_code in (201, 400, 422)
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--b--\r\n",
        b'--b\r\nContent-Disposition: form-data; name="field"\r\n\r\nx\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nx',
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nx\r\n'
        b'--b\r\nContent-Disposition: form-data; name="g"; filename="b"\r\n\r\ny\r\n--b--\r\n',
    ],
)
async def test_a_body_without_exactly_one_file_is_refused(stage: Stage, body: bytes) -> None:
    async with stage.server.client() as http:
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        answer = await http.post(f"{API}/upload", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "malformed-body")
        plain = await http.post(f"{API}/upload", content=b"x")
        assert plain.status_code == 400
        assert files_of(stage) == []


async def test_what_is_too_large_is_refused_and_leaves_nothing(stage: Stage) -> None:
    limit(stage, file_bytes=1 << 20)
    async with stage.server.client() as http:
        announced = await upload(http, "large", bytes(2 << 20))
        assert announced.status_code == 413
        barely = await upload(http, "large", bytes((1 << 20) + 1))
        assert (barely.status_code, barely.json()["code"]) == (413, "upload-too-large")
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        unsaid = await http.post(f"{API}/upload", content=_endless(), headers=headers)
        assert unsaid.status_code == 413
        assert files_of(stage) == []
        assert (await upload(http, "fits", bytes(1 << 20))).status_code == 201


async def test_all_files_of_a_user_together_have_a_limit(stage: Stage) -> None:
    limit(stage, user_bytes=10)
    async with stage.server.client() as http:
        first = await upload(http, "a", b"123456")
        assert first.status_code == 201
        refused = await upload(http, "b", b"12345")
        assert (refused.status_code, refused.json()["code"]) == (413, "upload-quota-spent")
        assert len(files_of(stage)) == 1
        path = f"{API}/upload/{first.json()['id']}"
        assert (await http.delete(path)).status_code == 204
        assert (await http.delete(path)).status_code == 404
        assert (await upload(http, "b", b"12345")).status_code == 201


async def test_one_that_never_ends_is_given_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "LONGEST_S", 0.2)
    url = httpx.URL(stage.server.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"POST {API}/upload HTTP/1.1\r\nHost: {url.netloc.decode()}\r\nContent-Length: 1000\r\n"
        f"Authorization: Bearer {stage.server.token()}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nx'
    )
    writer.write(head.encode())
    async with asyncio.timeout(120):
        answer = await reader.readuntil(b"\r\n")
    assert b" 408 " in answer
    assert files_of(stage) == []
    writer.close()


async def test_they_are_readable_for_their_owner_alone_and_of_no_use_to_others(
    stage: Stage,
) -> None:
    stage.play(Say(text="One."), Say(text="Two."))
    async with stage.server.client() as http:
        id = (await upload(http, "a.txt", b"x")).json()["id"]
        path = stage.books.home / "uploads" / id
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        first = await said(http, "Use", attachments=[id])
        other = await http.post(f"{API}/chat", json={"prompt": "x", "attachments": [id]})
        assert (other.status_code, other.json()["code"]) == (404, "upload-missing")
        for odd in ("up-" + "0" * 32,):
            asked = {"prompt": "x", "attachments": [odd]}
            assert (await http.post(f"{API}/chat", json=asked)).status_code == 404
        for odd in ("../../etc/passwd", id.upper(), ""):
            asked = {"prompt": "x", "attachments": [odd]}
            assert (await http.post(f"{API}/chat", json=asked)).status_code == 422
        assert (await http.get(f"{API}/upload/{id}")).status_code == 405
        # What was refused left no conversation.
        listed = (await http.get(f"{API}/conversations")).json()["items"]
        assert [one["id"] for one in listed] == [first["conversation"]]
        await http.delete(f"{API}/sessions/{first['conversation']}")
        assert files_of(stage) == []


async def test_a_file_whose_turn_could_not_begin_can_be_used_by_another(stage: Stage) -> None:
    going = asyncio.Event()
    stage.play(Say(text="Slow", before=going), Say(text="Read."))
    async with stage.server.client() as http:
        busy = await chat(http, "Wait")
        id = (await upload(http, "a.txt", b"x")).json()["id"]
        asked = {"prompt": "x", "conversation": busy["conversation"], "attachments": [id]}
        assert (await http.post(f"{API}/chat", json=asked)).status_code == 409
        going.set()
        await ended(http, busy)
        told = await said(http, "Use", attachments=[id])
        shown = await transcript(http, told["conversation"])
        assert shown["events"][0]["data"]["attachments"][0]["name"] == "a.txt"


async def _endless() -> AsyncIterator[bytes]:
    yield b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n'
    for _ in range(64):
        yield bytes(1 << 16)
