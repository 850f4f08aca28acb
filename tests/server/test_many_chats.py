"""A hundred chats on one server, all in the middle of an answer at the same time."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.agent.scenes import Say
from tests.server.agent_stage import Stage
from tests.server.chatting import API, chat, parsed
from tests.server.conftest import until

from crucible.conversations.conversations import Conversations
from crucible.conversations.pace import Pace
from crucible.errors import TooManyTurns

pytestmark = pytest.mark.usefixtures("run")

CHATS = 100
WORDS = " ".join(f"word{number}" for number in range(20))


async def test_a_hundred_chats_stream_at_once_and_no_event_is_lost(stage: Stage) -> None:
    going = asyncio.Event()
    known = stage.scene.engine.chronicler
    assert isinstance(known, Conversations)
    known.pace = Pace(0)
    stage.play(*(Say(text=WORDS, amid=going) for _ in range(CHATS)))
    headers = {"Authorization": f"Bearer {stage.server.token()}"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=stage.server.url, headers=headers, timeout=300, limits=limits
    ) as http:
        told = await asyncio.gather(*(chat(http, f"chat {number}") for number in range(CHATS)))
        following = [
            asyncio.create_task(
                http.get(
                    f"{API}/sessions/{one['conversation']}/events",
                    params={"after": one["after"], "turn": one["turn"]},
                )
            )
            for one in told
        ]
        # Each has said all but its end: none could, if some had to wait for others.
        await until(lambda: len(stage.scene.model.asked) == CHATS)
        assert stage.scene.engine.health().busy == CHATS
        going.set()
        for answer in await asyncio.gather(*following):
            events = parsed(answer.text)
            numbers = [one["number"] for one in events]
            assert numbers == list(range(1, len(events) + 1))
            assert "".join(one["data"]["text"] for one in events if one["kind"] == "text") == WORDS
            assert events[-1]["data"]["end"] == "done"


async def test_who_asks_too_often_is_told_when_to_ask_again(stage: Stage) -> None:
    known = stage.scene.engine.chronicler
    assert isinstance(known, Conversations)
    known.pace = Pace(2)
    async with stage.server.client() as http:
        first = await chat(http, "one")
        await http.get(f"{API}/sessions/{first['conversation']}/events", params={"turn": 1})
        await chat(http, "two")
        refused = await http.post(f"{API}/chat", json={"prompt": "three"})
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-turns")
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        again = await http.post(f"{API}/conversations/{first['conversation']}/retry")
        assert again.status_code == 429
        assert len((await http.get(f"{API}/conversations")).json()["items"]) == 2


def test_each_user_has_a_pace_of_their_own_that_fills_again() -> None:
    now = 100.0
    pace = Pace(60, now=lambda: now)
    for _ in range(60):
        pace.spend("ann")
    pace.spend("bob")
    with pytest.raises(TooManyTurns, match="60 times"):
        pace.spend("ann")
    now += 1.0
    pace.spend("ann")
    with pytest.raises(TooManyTurns):
        pace.spend("ann")
