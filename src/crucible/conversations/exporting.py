"""A conversation to take away: as Markdown for people, or as JSON for programs.

What a model or a sandbox wrote stays what it is: in a fence longer than any in it, nothing of it is Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from crucible.conversations.facts import Conversation

_FENCES = re.compile(r"`{3,}|~{3,}")


class Event(Protocol):
    """As the room above tells it."""

    @property
    def number(self) -> int: ...
    @property
    def turn(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


async def as_markdown(
    conversation: Conversation, events: AsyncIterable[Event]
) -> AsyncIterator[bytes]:
    yield f"# {_inline(conversation.title or 'Untitled')}\n".encode(errors="replace")
    async for event in events:
        told = _told(event)
        if told:
            yield f"\n{told}\n".encode(errors="replace")


async def as_json(conversation: Conversation, events: AsyncIterable[Event]) -> AsyncIterator[bytes]:
    head = {
        "id": conversation.id,
        "title": conversation.title,
        "created_at": conversation.created_at,
        "updated_at": conversation.updated_at,
        "model": conversation.model,
    }
    yield json.dumps(head).removesuffix("}").encode() + b', "events": ['
    before = b"\n"
    async for event in events:
        told = {
            "number": event.number,
            "turn": event.turn,
            "kind": event.kind,
            "at": event.at,
            "data": dict(event.data),
        }
        yield before + json.dumps(told).encode()
        before = b",\n"
    yield b"\n]}\n"


def fenced(text: str, kind: str = "") -> str:
    """Inert, whatever it holds."""
    longest = max((len(one) for one in _FENCES.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    body = text if text.endswith("\n") else f"{text}\n"
    return f"{fence}{kind}\n{body}{fence}"


def _told(event: Event) -> str:
    data = event.data
    match event.kind:
        case "turn-began":
            if data.get("resumed"):
                return ""
            moment = datetime.fromtimestamp(event.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
            files = "".join(
                f"\n\n- attached: {_inline(str(one.get('name', '')))}"
                for one in data.get("attachments", ())
            )
            return f"## You, {moment}\n\n{fenced(str(data.get('prompt', '')))}{files}"
        case "text":
            return f"## Answer\n\n{fenced(str(data.get('text', '')), 'markdown')}"
        case "call" if data.get("state") == "asked":
            tool = _inline(str(data.get("tool", "")))
            return f"### Tool: {tool}\n\n{fenced(str(data.get('arguments', '')))}"
        case "result":
            status = data.get("exit_status")
            ended = "" if status is None else f" (exit status {status})"
            return f"### Result{ended}\n\n{fenced(str(data.get('text', '')))}"
        case "artifact":
            return f"- artifact: {_inline(str(data.get('name', '')))}"
        case _:
            return ""


def _inline(text: str) -> str:
    """On one line, with nothing in it that Markdown or HTML would act on."""
    words = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return re.sub(r"([\\`*_{}\[\]()<>#+!|&~-])", r"\\\1", words)
