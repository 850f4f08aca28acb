"""A prompt that came with files, written anew: which of them come with its new words."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.agent.scenes import Say, call
from tests.server.agent_stage import Stage
from tests.server.chatting import API, chat, ended, upload

from crucible.agent.messages import UserMessage

pytestmark = pytest.mark.usefixtures("run")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


async def edit(http: httpx.AsyncClient, told: dict[str, Any], **asked: Any) -> httpx.Response:
    wanted = {"turn": told["turn"], "prompt": "Again", **asked}
    return await http.post(f"{API}/conversations/{told['conversation']}/edit", json=wanted)


async def edited(http: httpx.AsyncClient, told: dict[str, Any], **asked: Any) -> dict[str, Any]:
    answer = await edit(http, told, **asked)
    assert answer.status_code == 202, answer.text
    return {"conversation": told["conversation"], **answer.json()}


async def names(http: httpx.AsyncClient, told: dict[str, Any]) -> list[str]:
    events = await ended(http, told)
    began = next(one for one in events if one["kind"] == "turn-began")
    return [one["name"] for one in began["data"]["attachments"]]


async def test_files_of_an_edited_prompt_come_along_unless_taken_off_and_more_can_come(
    stage: Stage,
) -> None:
    stage.play(
        Say(text="Two."),
        Say(calls=(call("bash", command="cat a.csv c.csv; ls"),)),
        Say(text="Read."),
        Say(text="None."),
    )
    async with stage.server.client() as http:
        ids = [
            (await upload(http, name, name.encode())).json()["id"] for name in ("a.csv", "b.csv")
        ]
        first = await chat(http, "Read them", intent="agent", attachments=ids)
        assert await names(http, first) == ["a.csv", "b.csv"]
        more = (await upload(http, "c.csv", b"c.csv")).json()["id"]
        second = await edited(http, first, kept=["a.csv"], attachments=[more])
        events = await ended(http, second)
        assert await names(http, second) == ["a.csv", "c.csv"]
        # What was taken off stays in the sandbox, as all in it does.
        result = next(one for one in events if one["kind"] == "result")
        assert result["data"]["text"] == "a.csvc.csva.csv\nb.csv\nc.csv"
        prompts = [
            one for one in stage.scene.model.asked[1].messages if isinstance(one, UserMessage)
        ]
        assert [("a.csv" in one.text, "b.csv" in one.text) for one in prompts] == [(True, False)]
        assert await names(http, await edited(http, second)) == []


async def test_an_upload_that_was_used_before_is_the_file_that_is_there(stage: Stage) -> None:
    stage.play(
        Say(text="Read."),
        Say(calls=(call("bash", command="echo changed > a.csv; ls"),)),
        Say(text="Again."),
        Say(text="Once more."),
    )
    async with stage.server.client() as http:
        id = (await upload(http, "a.csv", b"1,2\n")).json()["id"]
        first = await chat(http, "Read it", intent="agent", attachments=[id])
        assert await names(http, first) == ["a.csv"]
        second = await edited(http, first, attachments=[id])
        events = await ended(http, second)
        assert await names(http, second) == ["a.csv"]
        assert next(one for one in events if one["kind"] == "result")["data"]["text"] == "a.csv"
        # What a tool has written over it is not overwritten in turn.
        assert await names(http, await edited(http, second, attachments=[id])) == ["a-2.csv"]


async def test_pictures_go_with_their_files(stage: Stage) -> None:
    stage.play(*(Say(text="Seen.") for _ in range(3)))
    async with stage.server.client() as http:
        given = {"one.png": PNG, "words.txt": b"words", "two.png": PNG + b"2"}
        ids = [(await upload(http, *one)).json()["id"] for one in given.items()]
        first = await chat(http, "Look", attachments=ids)
        await ended(http, first)
        second = await edited(http, first, kept=["words.txt", "two.png"])
        await ended(http, second)
        both, one = (shown(stage, at) for at in (0, 1))
        assert len(both) == 2
        assert one == both[1:]


def shown(stage: Stage, at: int) -> list[str]:
    (prompt,) = [
        one for one in stage.scene.model.asked[at].messages if isinstance(one, UserMessage)
    ]
    return [one.blob for one in prompt.pictures]


async def test_a_file_that_did_not_come_with_the_prompt_cannot_be_kept(stage: Stage) -> None:
    stage.play(Say(text="Read."))
    async with stage.server.client() as http:
        first = await chat(http, "Read it")
        await ended(http, first)
        for name in ("a.csv", "../a.csv", "/etc/passwd"):
            refused = await edit(http, first, kept=[name])
            assert (refused.status_code, refused.json()["code"]) == (422, "bad-setting")
        refused = await edit(http, first, kept=["x"] * 257)
        assert refused.status_code == 422
