"""What every store of sessions must do, shown with each of them: files, SQLite, a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.scenes import run

from crucible.agent.events import Event
from crucible.agent.facts import Approval, Finding
from crucible.agent.keeping.base import (
    Moment,
    OpenTurn,
    SessionRecord,
    SessionStore,
    record_from_json,
    record_to_json,
)
from crucible.agent.keeping.choosing import choose_store
from crucible.agent.keeping.files import JsonFiles
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Summary,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from crucible.agent.models.base import Usage
from crucible.agent.options import Limits, PolicyRules, SessionOptions
from crucible.agent.workplace import Place
from crucible.errors import BadSetting, SessionMissing, StateDamaged
from crucible.store.database import Database

ODD = "a\0b \ud800 é \u2028 end"
MESSAGES: tuple[Message, ...] = (
    UserMessage(text=ODD, is_pinned=True),
    AssistantMessage(
        parts=(Text(text="yes"), ToolCall(id="1", name="ls", arguments="{")), model="m"
    ),
    ToolMessage(results=(ToolResult(call_id="1", name="ls", text=ODD, is_error=True, blob="b"),)),
    Summary(text="before", replaced=3),
)


@pytest.fixture(params=["files", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    if request.param == "files":
        yield JsonFiles(tmp_path / "sessions")
        return
    database = (
        Database(f"sqlite:///{tmp_path / 'crucible.db'}")
        if request.param == "sqlite"
        else Database(request.getfixturevalue("postgresql_url"))
    )
    yield SqlSessions(database)
    database.close()


@pytest.fixture
def postgresql_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with request.getfixturevalue("postgresql").fresh() as url:
        yield url


def record(session: str = "ses-1", created_at: float = 1.5) -> SessionRecord:
    approval = Approval(
        id="apr-1", session=session, turn=2, call="c", tool="bash", subject="rm", where="here",
        arguments={"command": ODD, "deep": [1, {"a": None}]}, reason="risky",
        findings=(Finding(rule="r", severity="high", line=1, why="w"),), asked_at=1.0, expires_at=2.0,
    )  # fmt: skip
    return SessionRecord(
        id=session,
        options=SessionOptions(
            labels={"a": "b"},
            tools=("bash", "mcp_*"),
            models={"chat": "openai:x"},
            policy=PolicyRules(deny=("bash(rm*)",)),
            budget=Limits(usd=1.25),
        ),
        created_at=created_at,
        used_at=2.25,
        turn=OpenTurn(
            number=2, intent="agent", began_at=1.0, began_with=4, schema={"type": "object"}
        ),
        approvals=(approval,),
        moments=(Moment(step=1, messages=2, checkpoint="k", taken_at=1.0, bytes=9),),
        place=Place(
            sandbox="s", name="n", image="i", image_digest="d", isolation="software-vm", backend="b"
        ),
        usage=Usage(input_tokens=4, output_tokens=2),
        cost_usd=0.125,
    )


def event(number: int, text: str = ODD) -> Event:
    return Event(number=number, turn=1, kind="text", at=0.5, data={"text": text, "n": [number]})


def test_what_was_saved_is_loaded_as_it_was(store: SessionStore) -> None:
    async def play() -> None:
        await store.save(record())
        await store.append(record(), first=0, messages=MESSAGES, events=[event(1), event(2)])
        kept = await store.load("ses-1")
        assert kept.record == record()
        assert kept.messages == MESSAGES
        assert kept.last_event == 2
        assert await store.events("ses-1", after=0, limit=10) == (event(1), event(2))
        assert await store.events("ses-1", after=1, limit=10) == (event(2),)
        assert await store.events("ses-1", after=0, limit=1) == (event(1),)

    run(play())


def began(number: int, turn: int) -> Event:
    # The text of another event may look like what is looked for.
    data = {"prompt": 'say "kind":"artifact" and "kind":"turn-began"'}
    return Event(number=number, turn=turn, kind="turn-began", at=0.5, data=data)


def test_the_events_that_turns_began_with_are_found_without_the_others(store: SessionStore) -> None:
    async def play() -> None:
        told = [began(1, 1), event(2, '"kind":"turn-began"'), began(3, 2), event(4), began(5, 3)]
        await store.append(record(), first=0, messages=[], events=told)
        await store.append(record("ses-2"), first=0, messages=[], events=[began(1, 9)])
        newest = await store.marks("ses-1", "turn-began", limit=2)
        assert newest == (began(5, 3), began(3, 2))
        older = await store.marks("ses-1", "turn-began", before_turn=2, limit=9)
        assert older == (began(1, 1),)
        assert await store.marks("ses-1", "artifact", limit=9) == ()
        # Written again after a crash: what came after the first writing is not of this history.
        await store.append(record(), first=0, messages=[], events=[began(3, 2), event(4)])
        assert (await store.marks("ses-1", "turn-began", limit=1))[0].number in (3, 5)
        await store.delete("ses-1")
        assert await store.marks("ses-1", "turn-began", limit=9) == ()
        assert await store.marks("ses-2", "turn-began", limit=9) == (began(1, 9),)

    run(play())


def test_an_append_that_is_repeated_leaves_one(store: SessionStore) -> None:
    async def play() -> None:
        for _ in range(2):
            await store.append(record(), first=0, messages=MESSAGES[:2], events=[event(1)])
        await store.append(record(), first=1, messages=MESSAGES[1:3], events=[event(1), event(2)])
        kept = await store.load("ses-1")
        assert (kept.messages, kept.last_event) == (MESSAGES[:3], 2)
        assert await store.events("ses-1", after=0, limit=10) == (event(1), event(2))

    run(play())


def test_rewriting_replaces_messages_and_leaves_events(store: SessionStore) -> None:
    async def play() -> None:
        await store.append(record(), first=0, messages=MESSAGES, events=[event(1)])
        changed = replace(record(), turn=None, approvals=())
        await store.rewrite(changed, MESSAGES[-1:])
        kept = await store.load("ses-1")
        assert (kept.messages, kept.record, kept.last_event) == (MESSAGES[-1:], changed, 1)
        await store.append(changed, first=1, messages=MESSAGES[:1], events=[event(2)])
        assert (await store.load("ses-1")).messages == (MESSAGES[-1], MESSAGES[0])
        await store.rewrite(changed, ())
        assert (await store.load("ses-1")).messages == ()

    run(play())


def test_what_is_redacted_keeps_its_place_and_leaves_the_rest(store: SessionStore) -> None:
    async def play() -> None:
        events = [
            Event(number=at, turn=1, kind="notice", at=2.0, data={"text": f"secretquux {at}"})
            for at in (1, 2, 3)
        ]
        await store.append(record(), first=0, messages=MESSAGES, events=events)
        await store.save(record("ses-2"))
        new = replace(events[1], data={"text": "[forgotten]"})
        await store.redact("ses-1", messages={0: UserMessage(text="[forgotten]")}, events=[new])
        kept = await store.load("ses-1")
        assert kept.messages == (UserMessage(text="[forgotten]"), *MESSAGES[1:])
        assert kept.record == record()
        assert await store.events("ses-1", after=0, limit=9) == (events[0], new, events[2])
        await store.redact("ses-1", messages={}, events=())
        assert (await store.load("ses-1")).messages == kept.messages
        later = Event(number=4, turn=1, kind="notice", at=3.0, data={})
        await store.append(record(), first=4, messages=(MESSAGES[0],), events=[later])
        assert len((await store.load("ses-1")).messages) == 5

    run(play())


def test_deleting_leaves_nothing_and_others_alone(store: SessionStore) -> None:
    async def play() -> None:
        for name in ("ses-1", "ses-2"):
            await store.append(record(name), first=0, messages=MESSAGES, events=[event(1)])
        await store.delete("ses-1")
        await store.delete("ses-1")
        assert not await store.exists("ses-1")
        assert await store.exists("ses-2")
        with pytest.raises(SessionMissing):
            await store.load("ses-1")
        assert await store.events("ses-1", after=0, limit=9) == ()
        assert (await store.load("ses-2")).messages == MESSAGES

    run(play())


def test_sessions_are_listed_in_the_order_of_their_making(store: SessionStore) -> None:
    async def play() -> None:
        for name, moment in (("ses-c", 3.0), ("ses-a", 2.0), ("ses-b", 1.0)):
            await store.save(record(name, moment))
        assert [one.id for one in await store.list()] == ["ses-b", "ses-a", "ses-c"]

    run(play())


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\0b", "A", "x" * 65, "."])
def test_an_odd_name_is_of_no_session(store: SessionStore, name: str) -> None:
    async def play() -> None:
        assert not await store.exists(name.replace("\0", "?"))
        with pytest.raises(SessionMissing):
            await store.load(name.replace("\0", "?"))

    run(play())


def test_many_tasks_append_to_sessions_of_their_own(store: SessionStore) -> None:
    async def one(name: str) -> None:
        for number in range(1, 6):
            message = UserMessage(text=f"{name} {number}")
            await store.append(
                record(name), first=number - 1, messages=[message], events=[event(number, name)]
            )

    async def play() -> None:
        names = [f"ses-{number}" for number in range(8)]
        await asyncio.gather(*(one(name) for name in names))
        for name in names:
            kept = await store.load(name)
            assert [one.text for one in kept.messages if isinstance(one, UserMessage)] == [
                f"{name} {number}" for number in range(1, 6)
            ]

    run(play())


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    async def play() -> None:
        store = JsonFiles(tmp_path)
        await store.append(record(), first=0, messages=MESSAGES[:2], events=[event(1), event(2)])
        for name in ("messages.jsonl", "events.jsonl"):
            path = tmp_path / "ses-1" / name
            path.write_bytes(path.read_bytes()[:-9])
        kept = await store.load("ses-1")
        assert (kept.messages, kept.last_event) == (MESSAGES[:1], 1)
        await store.append(record(), first=1, messages=MESSAGES[1:2], events=[event(2)])
        kept = await store.load("ses-1")
        assert (kept.messages, kept.last_event) == (MESSAGES[:2], 2)

    run(play())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_head_that_nobody_wrote_is_damaged_state(value: object) -> None:
    with pytest.raises(StateDamaged):
        record_from_json(value)


def test_a_head_survives_json() -> None:
    assert record_from_json(record_to_json(record())) == record()


def test_a_store_is_chosen_by_its_name(tmp_path: Path) -> None:
    assert isinstance(choose_store("files", home=tmp_path, database=dict), JsonFiles)
    with pytest.raises(BadSetting, match="sqll"):
        choose_store("sqll", home=tmp_path, database=dict)
