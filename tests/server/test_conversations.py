"""Conversations and chat over HTTP: real doors, a real engine, a model that the test plays."""

from __future__ import annotations

import asyncio

import pytest
from tests.agent.scenes import Say, call
from tests.server.agent_stage import Stage
from tests.server.chatting import API, chat, events, said

from crucible.server.tokens import Scope

pytestmark = pytest.mark.usefixtures("run")


async def test_a_prompt_makes_a_conversation_that_is_listed_renamed_pinned_and_found(
    stage: Stage,
) -> None:
    stage.play(Say(text="Bananas are yellow."), Say(text="So are lemons."))
    async with stage.server.client() as http:
        told = await said(http, "What colour are bananas?")
        other = await said(http, "And lemons?")
        id = told["conversation"]
        listed = (await http.get(f"{API}/conversations")).json()["items"]
        assert [one["id"] for one in listed] == [other["conversation"], id]
        assert listed[1]["title"] == "What colour are bananas?"
        assert (listed[1]["turns"], listed[1]["state"]) == (1, "idle")
        assert listed[1]["model"] == "scripted:test"
        changed = await http.patch(
            f"{API}/conversations/{id}", json={"title": "Fruit", "pinned": True}
        )
        assert (changed.json()["title"], changed.json()["pinned"]) == ("Fruit", True)
        first = (await http.get(f"{API}/conversations", params={"limit": 1})).json()
        assert [one["id"] for one in first["items"]] == [id]
        rest = await http.get(f"{API}/conversations", params={"cursor": first["next"]})
        assert [one["id"] for one in rest.json()["items"]] == [other["conversation"]]
        found = (await http.get(f"{API}/conversations", params={"q": "YELLOW"})).json()["items"]
        assert [(one["id"], one["snippet"]) for one in found] == [(id, "Bananas are yellow.")]
        odd = await http.get(f"{API}/conversations", params={"cursor": "bm9uZQ=="})
        assert odd.status_code == 422


async def test_a_transcript_has_the_newest_turns_with_their_pieces_put_together(
    stage: Stage,
) -> None:
    stage.play(*(Say(text=f"one two three {turn}") for turn in range(1, 6)))
    async with stage.server.client() as http:
        told = await said(http, "turn 1")
        id = told["conversation"]
        for turn in range(2, 6):
            await said(http, f"turn {turn}", conversation=id)
        path = f"{API}/conversations/{id}/transcript"
        newest = (await http.get(path, params={"turns": 2})).json()
        assert (newest["first_turn"], newest["has_more"], newest["open_turn"]) == (4, True, None)
        texts = [one for one in newest["events"] if one["kind"] == "text"]
        assert [one["data"]["text"] for one in texts] == ["one two three 4", "one two three 5"]
        assert newest["last_event"] == newest["events"][-1]["number"]
        older = (await http.get(path, params={"turns": 2, "before_turn": 4})).json()
        assert (older["first_turn"], older["has_more"]) == (2, True)
        oldest = (await http.get(path, params={"turns": 2, "before_turn": 2})).json()
        assert (oldest["first_turn"], oldest["has_more"]) == (1, False)
        numbers = [one["number"] for part in (oldest, older, newest) for one in part["events"]]
        assert numbers == sorted(set(numbers))
        whole = (await http.get(path)).json()
        assert [one["number"] for one in whole["events"]] == numbers
        empty = (await http.get(path, params={"before_turn": 1})).json()
        assert (empty["events"], empty["first_turn"], empty["has_more"]) == ([], 0, False)


async def test_a_page_that_opens_in_mid_stream_goes_on_where_its_transcript_ends(
    stage: Stage,
) -> None:
    going = asyncio.Event()
    stage.play(Say(text="First."), Say(text="One two three four", amid=going))
    async with stage.server.client() as http:
        id = (await said(http, "A"))["conversation"]
        told = await chat(http, "B", conversation=id)
        path = f"{API}/conversations/{id}/transcript"
        async with asyncio.timeout(120):
            while True:
                half = (await http.get(path)).json()
                if "four" in str(half["events"]):
                    break
                await asyncio.sleep(0.02)
        assert half["state"] == "busy"
        assert half["open_turn"] == {"turn": 2, "after": told["after"]}
        going.set()
        rest = await events(http, id, half["last_event"], 2)
        assert rest[0]["number"] == half["last_event"] + 1
        assert rest[-1]["kind"] == "turn-ended"
        folded = [one for one in half["events"] if one["turn"] == 2] + rest
        text = "".join(one["data"]["text"] for one in folded if one["kind"] == "text")
        assert text == "One two three four"
        whole = (await http.get(path)).json()
        assert (whole["open_turn"], whole["state"]) == (None, "idle")


async def test_output_of_one_call_is_put_together_by_its_channel(stage: Stage) -> None:
    command = "for i in 1 2 3; do echo out$i; sleep 0.05; done; echo err >&2"
    stage.play(Say(calls=(call("bash", command=command),)), Say(text="Done."))
    async with stage.server.client() as http:
        told = await said(http, "Go", intent="agent")
        path = f"{API}/conversations/{told['conversation']}/transcript"
        shown = (await http.get(path)).json()["events"]
        output = [one["data"] for one in shown if one["kind"] == "output"]
        assert [(one["channel"], one["text"]) for one in output] == [
            ("stdout", "out1\nout2\nout3\n"),
            ("stderr", "err\n"),
        ]


async def test_a_deleted_one_is_gone_for_its_user_and_comes_back(stage: Stage) -> None:
    going = asyncio.Event()
    stage.play(Say(text="Slow", before=going))
    async with stage.server.client() as http:
        id = (await chat(http, "Wait"))["conversation"]
        path = f"{API}/conversations/{id}"
        assert (await http.delete(path)).status_code == 204
        assert (await http.get(f"{API}/sessions/{id}")).json()["state"] != "busy"
        for answer in (
            await http.get(path),
            await http.get(f"{path}/transcript"),
            await http.patch(path, json={"title": "x"}),
            await http.delete(path),
            await http.post(f"{API}/chat", json={"prompt": "x", "conversation": id}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (404, "conversation-missing")
        assert (await http.get(f"{API}/conversations")).json()["items"] == []
        assert (await http.post(f"{path}/restore")).json()["title"] == "Wait"
        assert len((await http.get(f"{API}/conversations")).json()["items"]) == 1


async def test_what_cannot_be_chatted_is_refused_and_leaves_no_conversation(stage: Stage) -> None:
    async with stage.server.client() as http, stage.server.client(Scope.RUN) as runner:
        for asked, status in (
            ({"prompt": ""}, 422),
            ({"prompt": "   "}, 422),
            ({"prompt": "x", "conversation": "../../etc"}, 422),
            ({"prompt": "x", "conversation": "ses-none"}, 404),
            ({"prompt": "x", "surprise": 1}, 422),
            ({"prompt": "x" * (1 << 21)}, 422),
        ):
            answer = await http.post(f"{API}/chat", json=asked)
            assert (answer.status_code, asked) == (status, asked)
        huge = await http.post(f"{API}/chat", json={"prompt": "x" * (10 << 20)})
        assert huge.status_code == 413
        wanted = {"prompt": "x", "options": {"sandbox": {"directory": "/etc"}}}
        assert (await runner.post(f"{API}/chat", json=wanted)).status_code == 403
        assert (await http.get(f"{API}/conversations")).json()["items"] == []
        assert (await http.get(f"{API}/sessions")).json()["items"] == []


async def test_an_empty_conversation_is_named_by_its_first_prompt(stage: Stage) -> None:
    stage.play(Say(text="Hello."))
    async with stage.server.client() as http:
        made = await http.post(f"{API}/conversations", json={"system": "Be brief."})
        assert made.status_code == 201
        id = made.json()["id"]
        empty = (await http.get(f"{API}/conversations/{id}/transcript")).json()
        assert (empty["events"], empty["first_turn"], empty["last_event"]) == ([], 0, 0)
        await said(http, "Good morning", conversation=id)
        assert (await http.get(f"{API}/conversations/{id}")).json()["title"] == "Good morning"
        named = await http.post(f"{API}/conversations", json={"title": "Mine"})
        assert named.json()["title"] == "Mine"
        more = {"prompt": "x", "conversation": id, "options": {"title": "t"}}
        assert (await http.post(f"{API}/chat", json=more)).status_code == 422
