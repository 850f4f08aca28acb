"""What a call came to, as its answer tells: one JSON object, or a stream of events. Whatever is not clear is None.

The answer comes from the provider over TLS that was verified; still, counts that cannot be are not believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from crucible.network.metering import Usage
from crucible.network.metering_requests import Route

MAX_ANSWER: Final = 16 << 20
MAX_EVENT: Final = 4 << 20
MOST_TOKENS: Final = 100_000_000

Read = Callable[[Mapping[str, Any]], Usage | None]


class UsageReader(Protocol):
    @property
    def is_complete(self) -> bool:
        """Whether nothing that matters can follow, though the answer has not ended."""
        ...

    def feed(self, piece: bytes) -> bytes:
        """The next piece of an answer; returns what the program may have of it."""
        ...

    def rest(self) -> bytes:
        """What was held back, at the end of an answer."""
        ...

    def usage(self) -> Usage | None:
        """Once the answer has come to its proper end."""
        ...


def reader_for(route: Route, *, is_stream: bool, strips_usage: bool) -> UsageReader:
    if is_stream:
        return EventUsage(route, strips_usage=strips_usage)
    return ObjectUsage(_WHOLE[route])


class ObjectUsage:
    """An answer in one piece of JSON."""

    is_complete = False

    def __init__(self, read: Read) -> None:
        self._read = read
        self._held = bytearray()
        self._is_lost = False

    def feed(self, piece: bytes) -> bytes:
        if len(self._held) + len(piece) > MAX_ANSWER:
            self._is_lost = True
            self._held.clear()
        if not self._is_lost:
            self._held += piece
        return piece

    def rest(self) -> bytes:
        return b""

    def usage(self) -> Usage | None:
        found = None if self._is_lost else _object(bytes(self._held))
        return None if found is None else self._read(found)


class EventUsage:
    """Server-sent events. With `strips_usage`, the piece that only has the usage is for us alone."""

    def __init__(self, route: Route, *, strips_usage: bool) -> None:
        self._route = route
        self._strips = strips_usage
        self._held = bytearray()
        self._is_lost = False
        self._has_ended = False
        self._counts: dict[str, Any] = {}
        self._usage: Usage | None = None

    def feed(self, piece: bytes) -> bytes:
        if self._is_lost:
            return piece
        self._held += piece
        passed: list[bytes] = []
        while (event := self._event()) is not None:
            if not self._is_for_us(event):
                passed.append(event)
        if len(self._held) > MAX_EVENT:
            self._is_lost = True
            passed.append(self.rest())
        return b"".join(passed) if self._strips else piece

    def rest(self) -> bytes:
        rest = bytes(self._held)
        self._held.clear()
        return rest if self._strips else b""

    def usage(self) -> Usage | None:
        return self._usage if self._has_ended and not self._is_lost else None

    @property
    def is_complete(self) -> bool:
        # Gemini marks no end: what it counted may come once more after its last words.
        return self._has_ended and self._route is not Route.GENERATE

    def _event(self) -> bytes | None:
        """Up to and with the empty line behind it."""
        ends = [
            at + len(mark)
            for mark in (b"\n\n", b"\r\n\r\n", b"\r\r")
            if (at := self._held.find(mark)) >= 0
        ]
        if not ends:
            return None
        event = bytes(self._held[: min(ends)])
        del self._held[: len(event)]
        return event

    def _is_for_us(self, event: bytes) -> bool:
        data = b"\n".join(
            line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")
        )
        if data == b"[DONE]":
            self._has_ended = True
            return False
        found = _object(data) if data else None
        if found is None:
            return False
        match self._route:
            case Route.MESSAGES:
                self._of_messages(found)
            case Route.RESPONSES:
                self._of_responses(found)
            case Route.GENERATE:
                self._usage = _generated(found) or self._usage
                self._has_ended = self._has_ended or _has_finished(found)
            case _ if isinstance(found.get("usage"), dict):
                self._usage = _chatted(found)
                return self._strips and found.get("choices") == []
        return False

    def _of_messages(self, found: Mapping[str, Any]) -> None:
        kind = found.get("type")
        message = found.get("message") if kind == "message_start" else found
        counts = message.get("usage") if isinstance(message, dict) else None
        if kind in ("message_start", "message_delta") and isinstance(counts, dict):
            # What comes later is the sum up to then; what it leaves out stands as it was.
            self._counts |= {name: value for name, value in counts.items() if value is not None}
            self._usage = _messaged({"usage": self._counts})
        self._has_ended = self._has_ended or kind == "message_stop"

    def _of_responses(self, found: Mapping[str, Any]) -> None:
        if found.get("type") in ("response.completed", "response.incomplete", "response.failed"):
            response = found.get("response")
            self._usage = _responded(response) if isinstance(response, dict) else None
            self._has_ended = True


def _messaged(found: Mapping[str, Any]) -> Usage | None:
    counts = _part(found, "usage")
    plain, output = _count(counts, "input_tokens"), _count(counts, "output_tokens")
    read = _count(counts, "cache_read_input_tokens", 0)
    write = _count(counts, "cache_creation_input_tokens", 0)
    hour = _count(_part(counts, "cache_creation"), "ephemeral_1h_input_tokens", 0)
    if plain is None or output is None or read is None or write is None or hour is None:
        return None
    return _checked(plain + read + write, output, read, write, hour)


def _chatted(found: Mapping[str, Any]) -> Usage | None:
    counts = _part(found, "usage")
    details = _part(counts, "prompt_tokens_details")
    cached = _count(details, "cached_tokens", 0)
    if "prompt_cache_hit_tokens" in counts:
        cached = _count(counts, "prompt_cache_hit_tokens")
    plain, output = _count(counts, "prompt_tokens"), _count(counts, "completion_tokens")
    return (
        None
        if plain is None or output is None or cached is None
        else _checked(plain, output, cached)
    )


def _responded(found: Mapping[str, Any]) -> Usage | None:
    counts = _part(found, "usage")
    cached = _count(_part(counts, "input_tokens_details"), "cached_tokens", 0)
    plain, output = _count(counts, "input_tokens"), _count(counts, "output_tokens")
    return (
        None
        if plain is None or output is None or cached is None
        else _checked(plain, output, cached)
    )


def _embedded(found: Mapping[str, Any]) -> Usage | None:
    plain = _count(_part(found, "usage"), "prompt_tokens")
    return None if plain is None else _checked(plain, 0)


def _has_finished(found: Mapping[str, Any]) -> bool:
    """Each event of Gemini's has counts up to then; only the last says why it is the last."""
    listed = found.get("candidates")
    said = listed if isinstance(listed, list) else []
    is_refused = "blockReason" in _part(found, "promptFeedback")
    return is_refused or any(isinstance(one, dict) and one.get("finishReason") for one in said)


def _generated(found: Mapping[str, Any]) -> Usage | None:
    counts = _part(found, "usageMetadata")
    prompt = _count(counts, "promptTokenCount")
    tools = _count(counts, "toolUsePromptTokenCount", 0)
    cached = _count(counts, "cachedContentTokenCount", 0)
    written = _count(counts, "candidatesTokenCount", 0)
    thought = _count(counts, "thoughtsTokenCount", 0)
    if prompt is None or tools is None or cached is None or written is None or thought is None:
        return None
    return _checked(prompt + tools, written + thought, cached)


_WHOLE: Final[Mapping[Route, Read]] = {
    Route.MESSAGES: _messaged,
    Route.CHAT: _chatted,
    Route.RESPONSES: _responded,
    Route.EMBEDDINGS: _embedded,
    Route.GENERATE: _generated,
}


def _checked(plain: int, output: int, read: int = 0, write: int = 0, hour: int = 0) -> Usage | None:
    if read + write > plain or hour > write:
        return None
    return Usage(
        input_tokens=plain,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_1h_tokens=hour,
    )


def _part(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _count(values: Mapping[str, Any], name: str, otherwise: int | None = None) -> int | None:
    value = values.get(name)
    if value is None:
        return otherwise
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
