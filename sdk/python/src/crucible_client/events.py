"""Server-sent events out of the bytes they come in: pure, and bounded before anything is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from crucible_client.errors import BadAnswer

LARGEST_EVENT = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    kind: str
    data: dict[str, Any]
    number: str | None = None


class EventDecoder:
    """Fed with pieces of any size; raises BadAnswer for what is no event."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._fields: dict[str, str] = {}
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        self._rest += data
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, self._searched))) >= 0:
            line = bytes(self._rest[begin:end])
            begin = end + 1
            self._searched = 0
            found = self._line(line.removesuffix(b"\r"))
            if found is not None:
                yield found
        del self._rest[:begin]
        # What has no end of a line in it is not looked through again.
        self._searched = len(self._rest)
        if self._size + len(self._rest) > LARGEST_EVENT:
            raise BadAnswer(f"The server sent an event of more than {LARGEST_EVENT} bytes")

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._finish()
        self._size += len(line)
        name, colon, value = line.partition(b":")
        if name in (b"event", b"data", b"id") and colon:
            try:
                text = value.removeprefix(b" ").decode()
            except UnicodeDecodeError:
                raise BadAnswer("The server sent an event that is no text") from None
            key = name.decode()
            if key == "data" and "data" in self._fields:
                text = f"{self._fields['data']}\n{text}"
            self._fields[key] = text
        return None

    def _finish(self) -> Event | None:
        fields, self._fields, self._size = self._fields, {}, 0
        if "data" not in fields:
            return None
        return Event(
            kind=fields.get("event", "message"),
            data=parse_object(fields["data"]),
            number=fields.get("id"),
        )


def parse_object(text: str | bytes) -> dict[str, Any]:
    """A JSON object; raises BadAnswer."""
    found = parse_json(text)
    if not isinstance(found, dict):
        raise BadAnswer("The server's answer is not the JSON object it should be")
    return found


def parse_json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadAnswer("The server's answer is no JSON") from None
