"""Prompts that are edited, asked again and branched; what is compacted cannot be taken back."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.agent.scenes import Say, call, results
from tests.server.agent_stage import Stage
from tests.server.chatting import API, MAY_PUBLISH, chat, ended, said, transcript

from crucible.agent.messages import AssistantMessage, Summary, UserMessage

pytestmark = pytest.mark.usefixtures("run")


async def test_an_edited_prompt_takes_back_its_turn_and_all_after_it(stage: Stage) -> None:
    stage.play(Say(text="One."), Say(text="Two."), Say(text="Three."), Say(text="Better."))
    async with stage.server.client() as http:
        id = (await said(http, "a apple"))["conversation"]
        await said(http, "b banana", conversation=id)
        await said(http, "c cherry", conversation=id)
        path = f"{API}/conversations/{id}"
        answer = await http.post(f"{path}/edit", json={"turn": 2, "prompt": "b better"})
        assert answer.status_code == 202, answer.text
        told = answer.json()
        assert told["turn"] == 4
        live = await ended(http, {**told, "after": 0})
        assert [one["data"]["from_turn"] for one in live if one["kind"] == "retracted"] == [2]
        shown = await transcript(http, id)
        began = [one for one in shown["events"] if one["kind"] == "turn-began"]
        assert [(one["turn"], one["data"]["prompt"]) for one in began] == [
            (1, "a apple"),
            (4, "b better"),
        ]
        assert "banana" not in str(shown)
        asked = [
            one.text for one in stage.scene.model.asked[-1].messages if isinstance(one, UserMessage)
        ]
        assert asked == ["a apple", "b better"]
        for word, found in (("banana", 0), ("better", 1)):
            listed = await http.get(f"{API}/conversations", params={"q": word})
            assert len(listed.json()["items"]) == found
        for turn, code in ((2, "turn-missing"), (9, "turn-missing")):
            refused = await http.post(f"{path}/edit", json={"turn": turn, "prompt": "x"})
            assert (refused.status_code, refused.json()["code"]) == (404, code)


async def test_the_last_prompt_is_asked_again_in_the_place_of_its_answer(stage: Stage) -> None:
    stage.play(
        Say(calls=(call("bash", command="echo one > left"),)),
        Say(text="Bad."),
        Say(text="Good."),
    )
    async with stage.server.client() as http:
        id = (await said(http, "Do it", intent="agent"))["conversation"]
        again = (await http.post(f"{API}/conversations/{id}/retry")).json()
        live = await ended(http, again)
        assert "The sandbox stays as it is" in str(live)
        shown = await transcript(http, id)
        texts = [one["data"]["text"] for one in shown["events"] if one["kind"] == "text"]
        assert texts == ["Good."]
        history = (await http.get(f"{API}/sessions/{id}/history")).json()["items"]
        assert [one["role"] for one in history] == ["user", "assistant"]


async def test_what_was_compacted_cannot_be_taken_back(stage: Stage) -> None:
    stage.play(*(Say(text=f"answer {turn}") for turn in range(1, 4)))
    async with stage.server.client() as http:
        id = (await said(http, "first"))["conversation"]
        await said(http, "second", conversation=id)
        engine = stage.scene.engine
        session = await engine._sessions.find(id)
        kept = [Summary(text="what was", replaced=2), *session.messages[2:]]
        await session.replace_messages(kept)
        path = f"{API}/conversations/{id}"
        for verb, asked in (("edit", {"turn": 1, "prompt": "x"}), ("branch", {"turn": 1})):
            refused = await http.post(f"{path}/{verb}", json=asked)
            assert (refused.status_code, refused.json()["code"]) == (409, "turn-compacted")
        assert (await http.post(f"{path}/edit", json={"turn": 2, "prompt": "x"})).status_code == 202


async def test_a_pinned_prompt_whose_answer_was_compacted_cannot_be_taken_back(
    stage: Stage,
) -> None:
    stage.play(Say(text="one"), Say(text="two"))
    async with stage.server.client() as http:
        id = (await said(http, "first"))["conversation"]
        await said(http, "second", conversation=id)
        session = await stage.scene.engine._sessions.find(id)
        pinned = UserMessage(text="first", is_pinned=True, turn=1)
        await session.replace_messages(
            [Summary(text="s", replaced=1), pinned, *session.messages[2:]]
        )
        refused = await http.post(f"{API}/conversations/{id}/edit", json={"turn": 1, "prompt": "x"})
        assert refused.json()["code"] == "turn-compacted"


async def test_a_branch_has_the_turns_up_to_one_and_goes_its_own_way(stage: Stage) -> None:
    stage.play(
        Say(calls=(call("bash", command="echo x > /workspace/a.txt"),)),
        Say(calls=(call("publish", path="/workspace/a.txt"),)),
        Say(text="One."),
        Say(text="Two."),
        Say(text="Other."),
    )
    async with stage.server.client() as http:
        id = (await said(http, "a plum", intent="agent", options=MAY_PUBLISH))["conversation"]
        await said(http, "b pear", conversation=id)
        made = await http.post(f"{API}/conversations/{id}/branch", json={"turn": 1})
        assert made.status_code == 201, made.text
        other = made.json()["id"]
        assert other != id
        assert made.json()["title"] == "a plum"
        shown = await transcript(http, other)
        began = [one["data"]["prompt"] for one in shown["events"] if one["kind"] == "turn-began"]
        assert began == ["a plum"]
        assert "empty workspace" in str(shown["events"][-1])
        # What was handed over is its own: it stays when the other is gone.
        (mine,) = (await http.get(f"{API}/conversations/{other}/artifacts")).json()["items"]
        (theirs,) = (await http.get(f"{API}/conversations/{id}/artifacts")).json()["items"]
        assert mine["blob"] != theirs["blob"]
        await http.delete(f"{API}/sessions/{id}")
        got = await http.get(f"{API}/conversations/{other}/artifacts/{mine['blob']}")
        assert got.content == b"x\n"
        await said(http, "c lemon", conversation=other)
        asked = stage.scene.model.asked[-1].messages
        assert [one.text for one in asked if isinstance(one, UserMessage)] == ["a plum", "c lemon"]
        assert results(asked)
        after = await transcript(http, other)
        assert [one["turn"] for one in after["events"] if one["kind"] == "turn-began"] == [1, 2]
        found = (await http.get(f"{API}/conversations", params={"q": "plum"})).json()["items"]
        assert [one["id"] for one in found] == [other]


async def test_a_turn_under_way_cannot_be_edited_asked_again_or_branched(stage: Stage) -> None:
    going = asyncio.Event()
    stage.play(Say(text="Slow", before=going))
    async with stage.server.client() as http:
        told = await chat(http, "Wait")
        path = f"{API}/conversations/{told['conversation']}"
        for verb, asked in (
            ("edit", {"turn": 1, "prompt": "x"}),
            ("branch", {"turn": 1}),
            ("retry", None),
        ):
            refused = await http.post(f"{path}/{verb}", json=asked)
            assert refused.json()["code"] == "session-busy"
        going.set()
        await ended(http, told)


async def test_a_call_tells_how_long_it_took(stage: Stage) -> None:
    stage.play(Say(calls=(call("bash", command="true"), call("none", id="c2"))), Say(text="Done."))
    async with stage.server.client() as http:
        told = await chat(http, "Go", intent="agent")
        found = {
            one["data"]["call"]: one["data"]["duration_s"]
            for one in await ended(http, told)
            if one["kind"] == "result"
        }
        assert found["c1"] > 0
        assert found["c2"] is None
        session = (await http.get(f"{API}/sessions/{told['conversation']}")).json()
        assert session["place"]["isolation"] == "namespace"


async def test_a_draft_that_was_cut_short_is_taken_back_too(stage: Stage) -> None:
    going = asyncio.Event()
    stage.play(Say(text="Half of", amid=going), Say(text="Whole."))
    async with stage.server.client() as http:
        told = await chat(http, "Go")
        id = told["conversation"]
        async with asyncio.timeout(120):
            while "Half" not in str(await transcript(http, id)):  # noqa: ASYNC110 - nobody could wake us
                await asyncio.sleep(0.02)
        await http.post(f"{API}/sessions/{id}/cancel")
        again = (await http.post(f"{API}/conversations/{id}/retry")).json()
        await ended(http, again)
        (_, answer) = await stage.scene.engine.history(id)
        assert isinstance(answer, AssistantMessage)
        assert (answer.text, answer.is_whole) == ("Whole.", True)


async def resumed(stage: Stage, http: httpx.AsyncClient) -> str:
    """Turn 1 is stopped, 2 goes on with it, 3 is another prompt."""
    stage.play(Say(text="Half of", amid=asyncio.Event()), Say(text="Whole."), Say(text="Pear."))
    told = await chat(http, "a plum")
    id: str = told["conversation"]
    async with asyncio.timeout(120):
        while "Half" not in str(await transcript(http, id)):  # noqa: ASYNC110 - nobody could wake us
            await asyncio.sleep(0.02)
    await http.post(f"{API}/sessions/{id}/cancel")
    again = await http.post(f"{API}/sessions/{id}/resume")
    await ended(http, {"conversation": id, **again.json()})
    await said(http, "b pear", conversation=id)
    return id


@pytest.mark.parametrize("turn", [1, 2])
async def test_a_branch_has_a_resumed_turn_together_with_what_it_went_on_with(
    stage: Stage, turn: int
) -> None:
    async with stage.server.client() as http:
        id = await resumed(stage, http)
        made = await http.post(f"{API}/conversations/{id}/branch", json={"turn": turn})
        assert (made.status_code, made.json()["turns"]) == (201, 2), made.text
        other = made.json()["id"]
        shown = await transcript(http, other)
        assert [one["turn"] for one in shown["events"] if one["kind"] == "turn-began"] == [1, 2]
        said_there = [
            one.text
            for one in await stage.scene.engine.history(other)
            if isinstance(one, UserMessage | AssistantMessage)
        ]
        assert (said_there[0], said_there[-1]) == ("a plum", "Whole.")
        for word, found in (("Whole", {id, other}), ("pear", {id})):
            listed = await http.get(f"{API}/conversations", params={"q": word})
            assert {one["id"] for one in listed.json()["items"]} == found


async def test_a_resumed_turn_has_no_prompt_to_edit(stage: Stage) -> None:
    async with stage.server.client() as http:
        id = await resumed(stage, http)
        path = f"{API}/conversations/{id}/edit"
        before = await transcript(http, id)
        refused = await http.post(path, json={"turn": 2, "prompt": "x"})
        assert (refused.status_code, refused.json()["code"]) == (409, "turn-resumed")
        assert refused.json()["hint"] == "Edit turn 1"
        assert await transcript(http, id) == before
        await ended(http, (await http.post(path, json={"turn": 1, "prompt": "x"})).json())
        shown = await transcript(http, id)
        assert [one["turn"] for one in shown["events"] if one["kind"] == "turn-began"] == [4]
