"""Takes what is forgotten out of a session: the same messages and events in the same places, without those words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from crucible.agent.events import Event
from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Part,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from crucible.memory.traces import MARKER, Traces

# What came in pieces is read as a whole: a sentence lies across many of them.
_IN_PIECES = ("text", "thinking", "output")
_OF_PEOPLE = ("turn-began", "turn-ended", "text", "thinking", "notice", "remembered")


def is_touched(session: str, events: Sequence[Event], traces: Traces) -> bool:
    """Whether one of the facts was said here, or told to a model here."""
    if any(session == source for source, _ in traces.sources):
        return True
    return any(
        fact.get("id") in traces.ids
        for event in events
        if event.kind == "recalled"
        for fact in event.data.get("facts", ())
    )


def add_prompts(session: str, events: Sequence[Event], traces: Traces) -> None:
    """A prompt in which the sentence is not found again was read without its quotations and code: all of it goes."""
    prompts = [
        str(event.data.get("prompt", ""))
        for event in events
        if event.kind == "turn-began" and (session, event.turn) in traces.sources
    ]
    traces.add(prompt for prompt in prompts if not traces.is_in(prompt, closely=True))


def redact_messages(
    messages: Sequence[Message], traces: Traces, *, closely: bool
) -> dict[int, Message]:
    """Those that are others now, by position."""
    found = {at: _message(message, traces, closely) for at, message in enumerate(messages)}
    return {at: message for at, message in found.items() if message != messages[at]}


def redact_events(events: Sequence[Event], traces: Traces, *, closely: bool) -> list[Event]:
    """Those that are others now."""
    made = [_event(event, traces, closely) for event in events]
    _redact_pieces(made, traces, closely)
    _drop_beginnings(made, events)
    return [new for new, old in zip(made, events, strict=True) if new.data != old.data]


def _message(message: Message, traces: Traces, closely: bool) -> Message:
    match message:
        case UserMessage():
            return replace(message, text=traces.redacted(message.text, closely=closely))
        case Summary():
            return replace(message, text=traces.redacted(message.text, closely=closely))
        case AssistantMessage():
            return replace(
                message, parts=tuple(_part(part, traces, closely) for part in message.parts)
            )
        case ToolMessage():
            results = tuple(
                replace(one, text=traces.redacted(one.text, closely=False))
                for one in message.results
            )
            return replace(message, results=results)


def _part(part: Part, traces: Traces, closely: bool) -> Part:
    match part:
        case Text():
            return replace(part, text=traces.redacted(part.text, closely=closely))
        case Thinking():
            text = traces.redacted(part.text, closely=closely)
            # Its provider has signed other words, and would refuse these.
            return part if text == part.text else Thinking(text=text)
        case ToolCall():
            return replace(part, arguments=_arguments(part.arguments, traces))


def _arguments(text: str, traces: Traces) -> str:
    """JSON, in which letters may be written as numbers, or what a model took for it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return traces.redacted(text, closely=False)
    changed = _value(value, traces, False)
    return text if changed == value else json.dumps(changed)


def _event(event: Event, traces: Traces, closely: bool) -> Event:
    if event.kind in _IN_PIECES:
        return event
    if event.kind == "recalled":
        facts = [_recalled(fact, traces) for fact in event.data.get("facts", ())]
        return replace(event, data={**event.data, "facts": facts})
    near = closely and event.kind in _OF_PEOPLE
    return replace(event, data=_value(event.data, traces, near))


def _recalled(fact: Mapping[str, Any], traces: Traces) -> dict[str, Any]:
    if fact.get("id") in traces.ids:
        return {**fact, "text": MARKER, "reason": ""}
    return {**fact, "text": traces.redacted(str(fact.get("text", "")), closely=False)}


def _value(value: Any, traces: Traces, closely: bool) -> Any:
    match value:
        case str():
            return traces.redacted(value, closely=closely)
        case Mapping():
            return {
                name: _arguments(one, traces)
                if name == "arguments" and isinstance(one, str)
                else _value(one, traces, closely)
                for name, one in value.items()
            }
        case list() | tuple():
            return [_value(one, traces, closely) for one in value]
        case _:
            return value


def _redact_pieces(events: list[Event], traces: Traces, closely: bool) -> None:
    """The whole is put into the first piece, the others are empty: who puts them together reads the same."""
    runs: dict[tuple[int, str, str, int], list[int]] = {}
    model_call = 0
    for at, event in enumerate(events):
        if event.kind == "usage":
            model_call += 1
        if event.kind in _IN_PIECES:
            call = str(event.data.get("call", ""))
            runs.setdefault((event.turn, event.kind, call, model_call), []).append(at)
    for (_, kind, _, _), places in runs.items():
        whole = "".join(str(events[at].data.get("text", "")) for at in places)
        left = traces.redacted(whole, closely=closely and kind != "output")
        if left != whole:
            for at in places:
                events[at] = replace(events[at], data={**events[at].data, "text": left})
                left = ""


def _drop_beginnings(events: list[Event], before: Sequence[Event]) -> None:
    """Of an object that is told as it grows: halves of a sentence are no sentence, so that they go with the whole."""
    changed = {
        new.turn
        for new, old in zip(events, before, strict=True)
        if new.kind in ("object", "turn-ended", "text") and new.data != old.data
    }
    for at, event in enumerate(events):
        if event.kind == "object" and event.turn in changed and not event.data.get("whole"):
            events[at] = replace(event, data={**event.data, "value": None})
