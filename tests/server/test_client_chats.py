"""Conversations by the Python SDK, waiting and not, at a real server whose model is played by the test."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from pathlib import Path

import pytest
from tests.agent.scenes import Say, call
from tests.server.agent_stage import Stage

from crucible_client import AsyncClient, Client, Upload
from crucible_client.errors import (
    BadAnswer,
    BadRequest,
    ConversationMissing,
    TurnMissing,
    UploadMissing,
)

pytestmark = pytest.mark.usefixtures("run")


async def asked(client: AsyncClient, prompt: str, conversation: str | None = None) -> str:
    """A whole turn of plain talk; gives the conversation."""
    chat = await client.chat(prompt, conversation=conversation, intent="chat")
    (await chat.wait()).check()
    return chat.conversation


async def test_a_chat_is_followed_waited_for_and_gone_on_with(stage: Stage) -> None:
    stage.play(
        Say(calls=(call("bash", command="echo 42"),)), Say(text="It is 42."), Say(text="Still.")
    )
    async with stage.client() as client:
        chat = await client.chat("Compute it", intent="agent", title="Sums")
        events = [event async for event in chat.events()]
        assert (events[0].kind, events[-1].is_last) == ("turn-began", True)
        assert "".join(event.text_delta for event in events) == "It is 42."
        answer = await chat.wait()
        assert (answer.text, answer.end, answer.turn) == ("It is 42.", "done", 1)
        assert [(one.name, one.args) for one in answer.tool_calls] == [
            ("bash", {"command": "echo 42"})
        ]
        again = await client.chat("Sure?", conversation=chat.conversation, intent="chat")
        assert (again.conversation, again.turn) == (chat.conversation, 2)
        assert (await again.wait()).text == "Still."
        assert (await client.conversations.get(chat.conversation)).title == "Sums"
        with pytest.raises(BadRequest):
            await client.chat("x", conversation=chat.conversation, title="Others")


async def test_a_chat_is_stopped(stage: Stage) -> None:
    stage.play(Say(text="Never", before=asyncio.Event()))
    async with stage.client() as client:
        chat = await client.chat("Wait", intent="chat")
        assert (await client.conversations.transcript(chat.conversation)).open_turn == 1
        assert await chat.cancel()
        assert (await chat.wait()).end == "cancelled"
        assert not await chat.cancel()


async def test_conversations_are_listed_searched_named_thrown_away_and_had_back(
    stage: Stage,
) -> None:
    stage.play(Say(text="One."), Say(text="Two."))
    async with stage.client() as client:
        kept = client.conversations
        plums = await asked(client, "About plums")
        pears = await asked(client, "About pears")
        assert [one.id for one in await kept.list()] == [pears, plums]
        assert [one.id for one in await kept.list(limit=1)] == [pears]
        (found,) = await kept.list("PLUMS")
        assert (found.id, "plums" in found.snippet) == (plums, True)
        assert (await kept.rename(plums, "Fruit")).title == "Fruit"
        assert (await kept.pin(plums)).pinned
        assert [one.id for one in await kept.list()] == [plums, pears]
        assert not (await kept.pin(plums, pinned=False)).pinned
        await kept.delete(plums)
        with pytest.raises(ConversationMissing):
            await kept.get(plums)
        assert (await kept.restore(plums)).title == "Fruit"
        empty = await kept.create(title="Later")
        assert (empty.title, empty.turns) == ("Later", 0)


async def test_turns_are_edited_asked_again_branched_and_exported(stage: Stage) -> None:
    stage.play(*(Say(text=f"Answer {number}.") for number in range(1, 6)))
    async with stage.client() as client:
        kept = client.conversations
        id = await asked(client, "first")
        await asked(client, "second", id)
        edited = await kept.edit(id, 2, "better")
        assert (await edited.wait()).text == "Answer 3."
        assert (await (await kept.retry(id)).wait()).text == "Answer 4."
        shown = await kept.transcript(id)
        prompts = [one.data["prompt"] for one in shown.events if one.kind == "turn-began"]
        assert prompts == ["first", "better"]
        assert [one.text_delta for one in shown.events if one.text_delta] == [
            "Answer 1.",
            "Answer 4.",
        ]
        assert (shown.has_more, shown.open_turn, shown.state) == (False, None, "idle")
        assert all(one.data["turn"] == one.turn and one.data["at"] > 0 for one in shown.events)
        newest = await kept.transcript(id, turns=1)
        older = await kept.transcript(id, turns=1, before_turn=newest.first_turn)
        assert (newest.has_more, older.first_turn) == (True, 1)
        branch = await kept.branch(id, 1)
        assert (branch.id != id, branch.turns) == (True, 1)
        assert "better" in await kept.export(id)
        assert "better" not in await kept.export(branch.id)
        assert json.loads(await kept.export(id, "json"))["events"]
        with pytest.raises(TurnMissing):
            await kept.edit(id, 2, "gone")


async def test_files_go_up_and_what_tools_made_comes_back(stage: Stage, tmp_path: Path) -> None:
    stage.play(
        Say(calls=(call("bash", command="cat /workspace/*.csv /workspace/two* > /workspace/all"),)),
        Say(calls=(call("publish", path="/workspace/all"),)),
        Say(text="Done."),
    )
    table = tmp_path / "one.csv"
    # More than one piece.
    table.write_bytes(b"1,2\n" * 100_000)
    async with stage.client() as client:
        uploads = [await client.upload(table), await client.upload(b"3,4\n", name="two; é'.txt")]
        assert [(one.name, one.size) for one in uploads] == [
            ("one.csv", 400_000),
            ("two; é'.txt", 4),
        ]
        chat = await client.chat(
            "Join them",
            attachments=[uploads[0], uploads[1].id],
            intent="agent",
            policy={"allow": ["publish(/**)"]},
        )
        (await chat.wait()).check()
        (made,) = await client.conversations.artifacts(chat.conversation)
        whole = table.read_bytes() + b"3,4\n"
        assert (made.name, made.size, made.turn) == ("all", len(whole), 1)
        assert await client.conversations.artifact(chat.conversation, made) == whole
        data = await client.conversations.artifacts_zip(chat.conversation)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.read("all") == whole


@pytest.mark.parametrize("name", ['a"b.txt', "a\r\nX-Other: y\r\n\r\nb", 'x"; y="z'])
async def test_a_hostile_name_of_a_file_makes_no_header(stage: Stage, name: str) -> None:
    async with stage.client() as client:
        made = await client.upload(b"plain\n", name=name)
        assert (made.size, "\n" in made.name) == (6, False)
        await client.remove_upload(made)
        with pytest.raises(UploadMissing):
            await client.remove_upload(made.id)
        with pytest.raises(TypeError):
            await client.upload(b"nameless")


async def test_who_waits_in_a_thread_has_the_same(stage: Stage, tmp_path: Path) -> None:
    stage.play(Say(text="Read."), Say(text="Again."))
    (tmp_path / "a.txt").write_text("plum\n")

    token = stage.server.token()

    def talk() -> tuple[str, str, list[str]]:
        with Client(stage.server.url, token=token) as client:
            upload = client.upload(tmp_path / "a.txt", name="b.txt")
            chat = client.chat("Read it", attachments=[upload], intent="chat")
            said = "".join(event.text_delta for event in chat.events())
            again = client.conversations.retry(chat.conversation).wait().text
            return said, again, [one.title for one in client.conversations.list("read")]

    assert await asyncio.to_thread(talk) == ("Read.", "Again.", ["Read it"])


def test_an_answer_of_another_shape_is_refused() -> None:
    with pytest.raises(BadAnswer):
        Upload.read({"id": "up-1", "name": "a", "size": "large", "media_type": "text/plain"})
