"""Chats over HTTP without their model: what a server adds to the first word, how long a conversation takes to open, and
a hundred that stream at once. The model takes no time; database, ledger and doors are the real ones."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks import drawn
from benchmarks.agent import Nowhere, OneModel
from benchmarks.figures import AtMost, Figure
from benchmarks.rounds import Readings, milliseconds, say
from crucible import assemble
from crucible.agent.engine import Engine
from crucible.agent.events import Event
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.messages import AssistantMessage, Message, Text, UserMessage
from crucible.agent.models.base import (
    Answered,
    ModelEvent,
    ModelRef,
    Profile,
    Request,
    TextDelta,
    Usage,
)
from crucible.agent.options import SessionOptions
from crucible.agent.parts import Parts
from crucible.agent.plain import FixedTools
from crucible.agent.recording import LedgerRecorder
from crucible.agent.session import new_record
from crucible.books import open_books
from crucible.config import Config
from crucible.conversations.conversations import Conversations
from crucible.conversations.limits import Limits
from crucible.sandbox.service.dispatch import Service
from crucible.server.books import LazyBooks
from crucible.server.engines import LazyEngine
from crucible.server.journal import Journal
from crucible.server.listening import Address, HttpDoors
from crucible.server.serving import http_doors
from crucible.server.signed import link_url
from crucible.server.store import Store
from crucible.server.tokens import Scope, create_token
from crucible.store.database import Database

_API = "/api/v1"
_CHATS = 100
_MESSAGES = 10_000
_WORDS = 50
_LONG = "ses-long"


def measure(*, rounds: int) -> list[Figure]:
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for readings in asyncio.run(_all(Path(name), rounds)):
            for key, value in readings.items():
                samples.setdefault(key, []).append(value)
    return [
        Figure(
            key="chat-first",
            name="chat: a prompt to the first word in the stream, without the model's own time",
            samples=milliseconds(samples.get("chat-first")),
            targets=(AtMost(limit=250),),
        ),
        Figure(
            key="chat-open",
            name=f"a conversation of {_MESSAGES:,} messages opens (its newest turns)",
            samples=milliseconds(samples.get("chat-open")),
            targets=(AtMost(limit=1000),),
        ),
        Figure(
            key="chat-hundred",
            name=f"{_CHATS} chats streaming at once, from the first prompt to the last end",
            samples=tuple(samples.get("chat-hundred", ())),
            unit="s",
        ),
        Figure(
            key="chat-lost",
            name=f"events lost by {_CHATS} chats streaming at once",
            samples=tuple(samples.get("chat-lost", ())),
            unit="count",
            targets=(AtMost(limit=0),),
        ),
        *drawn.figures(samples, _MESSAGES),
    ]


async def _all(root: Path, rounds: int) -> list[Readings]:
    found: list[Readings] = []
    await _write_long(root)
    async with _served(root) as doors:
        async with _client(doors) as http:
            for number in range(rounds + 1):
                say(f"chats: round {number} of {rounds}")
                first = await _first_word(http)
                opened = await _opened(http)
                found.append({**await _hundred(http), "chat-first": first, "chat-open": opened})
        in_browser = await _drawn(doors, rounds) if drawn.CHROMIUM.exists() else []
    # The first round of each warms caches, and does not count.
    return found[1:] + in_browser[1:]


async def _drawn(doors: HttpDoors, rounds: int) -> list[Readings]:
    found: list[Readings] = []
    long = f"{doors.domain.url}/c/{_LONG}"
    async with drawn.browsing(await link_url(doors.domain)) as context:
        for number in range(rounds + 1):
            say(f"chats in a browser: round {number} of {rounds}")
            words = await drawn.first_words(context, doors.domain.url, "word")
            found.append({**words, **await drawn.opened(context, long, _MESSAGES // 2, "word 19")})
        back = await drawn.scrolled_back(context, long, _MESSAGES // 2, "word 19")
        found.append({"drawn-back": back})
    return found


async def _first_word(http: httpx.AsyncClient) -> float:
    began = time.perf_counter()
    told = await _chat(http)
    async for event in _follow(http, told):
        if event["kind"] == "text":
            return time.perf_counter() - began
    raise RuntimeError("the turn ended without a word")


async def _opened(http: httpx.AsyncClient) -> float:
    began = time.perf_counter()
    answer = await http.get(f"{_API}/conversations/{_LONG}/transcript")
    answer.raise_for_status()
    if not answer.json()["has_more"]:
        raise RuntimeError("the conversation is shorter than it should be")
    return time.perf_counter() - began


async def _hundred(http: httpx.AsyncClient) -> Readings:
    began = time.perf_counter()
    lost = sum(await asyncio.gather(*(_whole(http) for _ in range(_CHATS))))
    return {"chat-hundred": time.perf_counter() - began, "chat-lost": float(lost)}


async def _whole(http: httpx.AsyncClient) -> int:
    """How many events of the turn did not come, or came twice."""
    told = await _chat(http)
    events = [event async for event in _follow(http, told)]
    expected = range(told["after"] + 1, events[-1]["number"] + 1)
    words = len([one for one in events if one["kind"] == "text"])
    missed = set(expected) ^ {int(one["number"]) for one in events}
    return len(missed) + abs(words - _WORDS)


async def _chat(http: httpx.AsyncClient) -> dict[str, Any]:
    answer = await http.post(f"{_API}/chat", json={"prompt": "Say something", "intent": "chat"})
    answer.raise_for_status()
    told: dict[str, Any] = answer.json()
    return told


async def _follow(
    http: httpx.AsyncClient, told: dict[str, Any]
) -> AsyncGenerator[dict[str, Any], None]:
    path = f"{_API}/sessions/{told['conversation']}/events"
    params = {"after": told["after"], "turn": told["turn"]}
    number, kind = 0, ""
    async with http.stream("GET", path, params=params) as answer:
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                number = int(value)
            elif name == "event":
                kind = value
            elif name == "data":
                yield {"number": number, "kind": kind, "data": json.loads(value)}


async def _write_long(root: Path) -> None:
    """A conversation that went on for long, with each answer told word by word."""
    database = Database(f"sqlite:///{root / 'crucible.db'}")
    store = SqlSessions(database)
    record = new_record(_LONG, SessionOptions())
    events: list[Event] = []
    messages: list[Message] = []
    words = [f"word {number} " for number in range(20)]
    answer = "".join(words)
    for turn in range(1, _MESSAGES // 2 + 1):
        for kind, data in (
            ("turn-began", {"intent": "chat", "prompt": f"prompt {turn}", "resumed": False}),
            *(("text", {"text": word}) for word in words),
            ("turn-ended", {"end": "done", "text": answer, "error": {}}),
        ):
            number = len(events) + 1
            events.append(Event(number=number, turn=turn, kind=kind, at=1.0, data=data))  # type: ignore[arg-type]
        messages.append(UserMessage(text=f"prompt {turn}", turn=turn))
        messages.append(AssistantMessage(parts=(Text(text=answer),)))
    await store.append(record, first=0, messages=messages, events=events)
    await Conversations(database, uploads=root / "uploads").create(_LONG, "local", title="Long")
    await asyncio.to_thread(database.close)


@asynccontextmanager
async def _served(root: Path) -> AsyncIterator[HttpDoors]:
    manager = assemble.manager(Config(home=root, pulls_images=False))
    books = open_books(root, manager.database.now())
    known = Conversations(
        books.database, uploads=root / "uploads", limits=Limits(turns_per_minute=0)
    )
    engine = Engine(
        Parts(
            store=SqlSessions(books.database),
            models=OneModel(_Talker()),
            workplaces=Nowhere(),
            toolbox=FixedTools(),
            recorder=LedgerRecorder(books.ledger),
            chronicler=known,
        )
    )
    await engine.start()

    async def make() -> Engine:
        return engine

    service, store = Service(manager), Store(manager.config.home)
    doors = http_doors(
        service,
        store,
        Address(port=0, requests_per_second=0),
        journal=Journal(None),
        engine=LazyEngine(make),
        books=LazyBooks(lambda: books),
    )
    await doors.open()
    await doors.domain.books.get()
    await doors.domain.engine.get()
    try:
        yield doors
    finally:
        await doors.drain()
        await service.close()
        await manager.database.close()
        manager.records.close()
        store.close()


@asynccontextmanager
async def _client(doors: HttpDoors) -> AsyncIterator[httpx.AsyncClient]:
    token = create_token(doors.domain.store, "bench", scope=Scope.ADMIN)[1]
    async with httpx.AsyncClient(
        base_url=doors.url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=300,
        limits=httpx.Limits(max_connections=None),
    ) as http:
        yield http


class _Talker:
    """Says some words, and takes no time for it."""

    ref = ModelRef(provider="scripted", name="talker")
    profile = Profile(context_tokens=200_000, output_tokens=4_000)

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        for _ in range(_WORDS):
            yield TextDelta(text="word ")
            # Others have their turn, as they have while a model thinks.
            await asyncio.sleep(0)
        yield Answered(
            message=AssistantMessage(parts=(Text(text="word " * _WORDS),)),
            usage=Usage(input_tokens=100, output_tokens=_WORDS),
            stop="end",
            model=self.ref,
        )

    async def close(self) -> None:
        pass
