"""What is done to texts on their way: thoughts between tags become thoughts, JSON is found in chatty text, half of a
character becomes none."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from crucible.agent.messages import AssistantMessage, Part, Text, Thinking
from crucible.agent.models.base import Answered, ModelEvent, TextDelta, ThinkingDelta

# As models write them; the tag that opens decides which one closes.
_TAGS = {"<think>": "</think>", "<thinking>": "</thinking>"}
_LONGEST_TAG = max(map(len, (*_TAGS, *_TAGS.values())))
_LONGEST_JSON = 4 << 20
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)


def whole_characters(text: str) -> str:
    """Without half of a character, which JSON can hold and UTF-8 cannot: no provider takes it back."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # Two halves that came one after the other are one.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class ThinkTags:
    """Splits a text that comes in any pieces. What might be the beginning of a tag waits for its end."""

    def __init__(self) -> None:
        self._kept = ""
        self._closing = ""

    def feed(self, text: str) -> Iterator[TextDelta | ThinkingDelta]:
        self._kept += text
        while found := self._next_tag():
            place, tag = found
            yield from self._tell(self._kept[:place])
            self._kept = self._kept[place + len(tag) :]
            self._closing = "" if self._closing else _TAGS[tag]
        safe = len(self._kept) - self._maybe_tag()
        yield from self._tell(self._kept[:safe])
        self._kept = self._kept[safe:]

    def end(self) -> Iterator[TextDelta | ThinkingDelta]:
        yield from self._tell(self._kept)
        self._kept = ""

    def _wanted(self) -> tuple[str, ...]:
        return (self._closing,) if self._closing else tuple(_TAGS)

    def _next_tag(self) -> tuple[int, str] | None:
        places = ((self._kept.find(tag), tag) for tag in self._wanted())
        return min((one for one in places if one[0] >= 0), default=None)

    def _maybe_tag(self) -> int:
        """How many characters at the end may be the beginning of a tag."""
        for length in range(min(_LONGEST_TAG - 1, len(self._kept)), 0, -1):
            ending = self._kept[-length:]
            if any(tag.startswith(ending) for tag in self._wanted()):
                return length
        return 0

    def _tell(self, text: str) -> Iterator[TextDelta | ThinkingDelta]:
        if text:
            yield ThinkingDelta(text=text) if self._closing else TextDelta(text=text)


async def split_thoughts(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
    """The same answer, in which what stands between think tags is told as thoughts."""
    tags = ThinkTags()
    async with aclosing(events):  # type: ignore[type-var]
        async for event in events:
            if isinstance(event, TextDelta):
                for told in tags.feed(event.text):
                    yield told
                continue
            if not isinstance(event, ThinkingDelta):
                for told in tags.end():
                    yield told
            if isinstance(event, Answered):
                event = replace(event, message=split_message(event.message))
            yield event


def split_message(message: AssistantMessage) -> AssistantMessage:
    """Thoughts are one part each, as they were told; they carry nothing, so no provider sees them again."""
    tags = ThinkTags()
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Text):
            _add(parts, tags.feed(part.text))
            continue
        if not isinstance(part, Thinking):
            _add(parts, tags.end())
        parts.append(part)
    _add(parts, tags.end())
    return replace(message, parts=tuple(parts))


def _add(parts: list[Part], told: Iterator[TextDelta | ThinkingDelta]) -> None:
    for one in told:
        last = parts[-1] if parts else None
        if isinstance(one, TextDelta):
            if isinstance(last, Text):
                parts[-1] = Text(text=last.text + one.text)
            else:
                parts.append(Text(text=one.text))
        elif isinstance(last, Thinking) and not last.carried:
            parts[-1] = Thinking(text=last.text + one.text)
        else:
            parts.append(Thinking(text=one.text))


def find_json(text: str) -> Any:
    """The first object or list in what a model wrote around it: fences, greetings, apologies.

    Raises ValueError where there is none.
    """
    if len(text) > _LONGEST_JSON:
        raise ValueError("the text is too long to look for JSON in it")
    decoder = json.JSONDecoder()
    for start in _starts(text):
        try:
            found, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return found
    raise ValueError("there is no JSON in the text")


# Enough for any preface; text of nothing but brackets must not take a lifetime.
_MOST_STARTS = 64


def _starts(text: str) -> Iterator[int]:
    """Where JSON may begin: behind a fence first, then wherever a bracket opens."""
    tried = 0
    fence = _FENCE.search(text)
    for origin in (fence.end(), 0) if fence else (0,):
        place = origin
        while tried < _MOST_STARTS:
            found = [at for at in (text.find("{", place), text.find("[", place)) if at >= 0]
            if not found:
                break
            tried += 1
            yield min(found)
            place = min(found) + 1
