"""What is forgotten is in no file of ours: sessions, events, recorded contents, what is searched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.scenes import Say, Scene, call, run
from tests.agent.test_accounts import kept

from crucible.agent.events import Event
from crucible.agent.forgetting import Keeper
from crucible.agent.keeping.base import SessionStore
from crucible.agent.keeping.files import JsonFiles
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.messages import AssistantMessage, Text, Thinking, UserMessage
from crucible.agent.redacting import redact_events, redact_messages
from crucible.agent.remembering import SessionMemory
from crucible.conversations.conversations import Conversations
from crucible.errors import SessionBusy
from crucible.ledger.ledger import Ledger
from crucible.memory.facts import Fact, Source
from crucible.memory.memory import Memory
from crucible.memory.recording import LedgerRecorder
from crucible.memory.rules import RuleExtractor
from crucible.memory.traces import MARKER, Traces
from crucible.store.database import Database

WORD = "Zanzibarqüx"
SENTENCE = f"I live in {WORD}"
ECHO = f"echo '{SENTENCE}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    stage: Scene
    ledger: Ledger
    memory: Memory
    conversations: Conversations

    async def learned(self, session: str) -> Fact:
        """When all of it is written, also its entry in the ledger."""
        async for event in self.stage.engine.events(session):
            if event.kind == "remembered":
                break
        (fact,) = await self.memory.list("local")
        return fact


@asynccontextmanager
async def world(root: Path, *lines: Any, kind: str = "sql") -> AsyncIterator[World]:
    database = Database(f"sqlite:///{root / 'crucible.db'}")
    ledger = Ledger(root, database)
    store: SessionStore = JsonFiles(root / "sessions") if kind == "files" else SqlSessions(database)
    recorder, conversations = (
        LedgerRecorder(ledger),
        Conversations(database, uploads=root / "uploads"),
    )
    memory = Memory(
        database,
        extractor=RuleExtractor(),
        recorder=recorder,
        eraser=recorder,
        keeper=Keeper(lambda: store, ledger, conversations),
    )
    try:
        given = {"store": store, "memory": SessionMemory(memory), "chronicler": conversations}
        async with kept(root, *lines, **given) as (stage, own):
            yield World(stage=stage, ledger=own, memory=memory, conversations=conversations)
    finally:
        ledger.close()
        database.close()


@pytest.mark.parametrize("kind", ["sql", "files"])
def test_after_forgetting_no_file_of_the_state_directory_has_the_words(
    kind: str, tmp_path: Path
) -> None:
    lines = (
        Say(calls=(call("bash", command=ECHO),)),
        Say(text=f"So you live in {WORD}. The tram is late."),
        *[Say(text=f"Answer {number}. " + "word " * 40) for number in range(12)],
        Say(text=f"In {WORD}, as you live there. Take the bus."),
        Say(text="I do not know."),
    )

    async def play() -> None:
        async with world(tmp_path, *lines, kind=kind) as here:
            engine = here.stage.engine
            session = await engine.create_session()
            await here.conversations.create(session.id, "local")
            await here.conversations.prompted(session.id, SENTENCE)
            reply = await engine.generate(session.id, f"{SENTENCE}. Echo it.", intent="agent")
            assert reply.end == "done", reply
            fact = await here.learned(session.id)
            for number in range(12):
                # Many neighbours, so that pages split and rows are moved.
                await engine.generate(session.id, f"and {number}?", intent="chat")
            other = await engine.create_session()
            told = await engine.generate(other.id, f"{WORD}, how far is it?", intent="chat")
            assert WORD in told.text
            before = await engine.history(session.id)
            events = [event async for event in _kept(here, session.id)]
            assert _holders(tmp_path, SENTENCE)
            assert len(_holders(tmp_path, WORD)) > 5

            await here.memory.forget("local", fact.id)

            assert _holders(tmp_path, SENTENCE) == []
            assert _holders(tmp_path, WORD) == []
            after = await engine.history(session.id)
            assert [type(one) for one in after] == [type(one) for one in before]
            first = after[0]
            assert isinstance(first, UserMessage)
            assert first.text == f"{MARKER}. Echo it."
            last = after[3]
            assert isinstance(last, AssistantMessage)
            assert last.text == f"{MARKER} The tram is late."
            seen = [event async for event in _kept(here, session.id)]
            assert [one.number for one in seen] == [one.number for one in events]
            shown = "".join(
                str(one.data["text"]) for one in seen if (one.kind, one.turn) == ("text", 1)
            )
            assert shown == f"{MARKER} The tram is late."
            for name in (session.id, other.id):
                verdict = await here.ledger.verify(name)
                assert verdict.findings == ()
                assert verdict.erased > 0
            replay = await engine.replay(session.id)
            assert replay.divergence is None
            assert replay.erased > 0

            reply = await engine.generate(session.id, "where do I live?", intent="chat")
            assert reply.end == "done"
            asked = here.stage.model.asked[-1]
            assert WORD not in asked.system
            assert WORD not in str(asked.messages)
        assert _holders(tmp_path, WORD) == []

    run(play())


def test_what_others_said_and_what_is_about_other_things_stays(tmp_path: Path) -> None:
    lines = (Say(text="Nice."), Say(text="It is."), Say(text="Port is sweet."))

    async def play() -> None:
        async with world(tmp_path, *lines) as here:
            engine = here.stage.engine
            session = await here.stage.session()
            await engine.generate(session.id, "I live in Porto. It is warm.", intent="chat")
            fact = await here.learned(session.id)
            eve = await here.stage.session(user="eve")
            await engine.generate(eve.id, "I live in Porto.", intent="chat")
            other = await here.stage.session(memory=False)
            await engine.generate(other.id, "what is a Porto wine?", intent="chat")
            await here.memory.forget("local", fact.id)
            assert _text(await engine.history(session.id), 0) == f"{MARKER}. It is warm."
            assert _text(await engine.history(eve.id), 0) == "I live in Porto."
            assert _text(await engine.history(other.id), 0) == "what is a Porto wine?"

    run(play())


def test_all_of_a_user_can_be_forgotten_after_a_restart(tmp_path: Path) -> None:
    async def play() -> None:
        async with world(tmp_path, Say(text="Nice.")) as here:
            session = await here.stage.session()
            await here.stage.engine.generate(session.id, f"{SENTENCE}.", intent="chat")
            await here.learned(session.id)
        async with world(tmp_path, Say(text="Hm.")) as later:
            await later.memory.forget_all("local")
            assert _holders(tmp_path, WORD) == []
            history = await later.stage.engine.history(session.id)
            assert _text(history, 0) == f"{MARKER}."

    run(play())


def test_another_program_forgets_what_an_engine_holds(tmp_path: Path) -> None:
    """As `crucible memory forget` does while the owner's engine runs."""

    async def play() -> None:
        async with world(tmp_path, Say(text="Nice."), Say(text="Hm.")) as here:
            session = await here.stage.session()
            await here.stage.engine.generate(session.id, f"{SENTENCE}.", intent="chat")
            fact = await here.learned(session.id)
            async with world(tmp_path) as other:
                await other.memory.forget("local", fact.id)
            seen = [event async for event in _kept(here, session.id)]
            assert WORD not in str(seen)
            assert WORD not in str(await here.stage.engine.history(session.id))
            await here.stage.engine.generate(session.id, "and now?", intent="chat")
            assert WORD not in str(here.stage.model.asked[-1])
        assert _holders(tmp_path, WORD) == []

    run(play())


def test_while_a_turn_is_under_way_nothing_is_forgotten(tmp_path: Path) -> None:
    async def play() -> None:
        held = asyncio.Event()
        async with world(tmp_path, Say(text="Nice."), Say(text="Hm.", before=held)) as here:
            session = await here.stage.session()
            await here.stage.engine.generate(session.id, f"{SENTENCE}.", intent="chat")
            fact = await here.learned(session.id)
            turn = await here.stage.engine.begin(session.id, "and now?", intent="chat")
            # That the turn is open is written before the model is asked.
            while len(here.stage.model.asked) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            with pytest.raises(SessionBusy):
                await here.memory.forget("local", fact.id)
            assert await here.memory.list("local") == (fact,)
            held.set()
            await turn.wait()
            await here.memory.forget("local", fact.id)
            assert _holders(tmp_path, WORD) == []

    run(play())


def test_what_grew_old_leaves_conversations_alone(tmp_path: Path) -> None:
    async def play() -> None:
        async with world(tmp_path, Say(text="Nice.")) as here:
            session = await here.stage.session()
            await here.stage.engine.generate(session.id, f"{SENTENCE}.", intent="chat")
            await here.learned(session.id)
            here.memory._clock = lambda: 4e9
            await here.memory.prune("local")
            await here.memory.prune("local")
            assert _text(await here.stage.engine.history(session.id), 0) == f"{SENTENCE}."

    run(play())


def _fact(text: str, quote: str) -> Fact:
    return Fact(
        id="mem_1",
        user="local",
        kind="fact",
        text=text,
        attribute="home",
        source=Source(session="s", turn=1, quote=quote),
        confidence=1.0,
        created_at=0.0,
        updated_at=0.0,
        recalled_at=None,
        recalls=0,
        expires_at=None,
        is_pinned=False,
        state="active",
        superseded_by="",
    )


@pytest.mark.parametrize(
    "said",
    [
        "I live  in\nPorto, really",
        "Well: *i LIVE in `Porto`, really*",
        "I live in “Porto” — really",
    ],
)
def test_the_sentence_is_found_however_it_is_spaced_and_marked(said: str) -> None:
    traces = Traces([_fact("Lives in Porto", "I live in Porto, really")])
    assert "Porto" not in traces.redacted(said, closely=False)


@given(st.text(max_size=80), st.text(max_size=40), st.booleans())
def test_redacting_twice_is_redacting_once(text: str, quote: str, closely: bool) -> None:
    traces = Traces([_fact("Lives in Porto", quote)])
    once = traces.redacted(text, closely=closely)
    assert traces.redacted(once, closely=closely) == once or MARKER.strip("[]") in quote.lower()


def test_pieces_of_an_answer_are_read_as_a_whole() -> None:
    traces = Traces([_fact("Lives in Porto", "I live in Porto")])
    texts = ["You live", " in Po", "rto. ", "Fine."]
    events = [
        Event(number=at, turn=1, kind="text", at=0.0, data={"text": text})
        for at, text in enumerate(texts, start=1)
    ]
    changed = {one.number: one for one in redact_events(events, traces, closely=True)}
    made = [changed.get(one.number, one) for one in events]
    assert "".join(str(one.data["text"]) for one in made) == f"{MARKER} Fine."


def test_a_thought_with_other_words_is_not_sent_as_signed() -> None:
    traces = Traces([_fact("Lives in Porto", "I live in Porto")])
    signed = Thinking(
        text="They said: I live in Porto", carried={"provider": "x", "signature": "y"}
    )
    message = AssistantMessage(parts=(signed, Text(text="ok")))
    (changed,) = redact_messages([message], traces, closely=False).values()
    assert isinstance(changed, AssistantMessage)
    thought = changed.parts[0]
    assert isinstance(thought, Thinking)
    assert ("Porto" in thought.text, thought.carried) == (False, {})


async def _kept(here: World, session: str) -> AsyncIterator[Event]:
    facts = await here.stage.engine.session(session)
    async for event in here.stage.engine.events(session):
        yield event
        if event.number >= facts.last_event:
            return


def _text(history: Any, at: int) -> str:
    return str(history[at].text)


def _holders(root: Path, text: str) -> list[str]:
    """Files with the words: plainly, in another case, or as JSON writes them."""
    forms = {text, text.lower(), json.dumps(text)[1:-1], json.dumps(text.lower())[1:-1]}
    return [
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and any(form.encode() in path.read_bytes() for form in forms)
    ]
