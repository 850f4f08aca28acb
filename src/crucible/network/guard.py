"""Looks for what must not pass in what is passing: placeholders on their way out, values on their way in."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Final

from crucible.network.violation import Violation

MOST_STREAMS: Final = 1024
MIN_TOLD: Final = 12


class Scanner:
    """Finds byte strings in a stream, however it is cut. `needles` gives each its name."""

    def __init__(self, needles: Mapping[bytes, str]) -> None:
        self._needles = needles
        self._overlap = max(map(len, needles), default=1) - 1
        self._tail = b""

    def feed(self, data: bytes) -> str:
        """The name of what was found, or ""."""
        seen = self._tail + data
        for needle, name in self._needles.items():
            if needle in seen:
                return name
        self._tail = seen[-self._overlap :] if self._overlap else b""
        return ""


class Guard:
    """Stops placeholders of secrets that are not for this host. All verbs raise Violation."""

    def __init__(self, placeholders: Mapping[bytes, str], place: str) -> None:
        self._placeholders = placeholders
        self._place = place
        self._streams: dict[int, Scanner] = {}

    def head(self, values: Iterable[bytes]) -> None:
        """Fields and target of a request; what Basic hides is looked at too."""
        for value in values:
            for text in (value, basic_of(value)):
                self._stop(Scanner(self._placeholders).feed(text))

    def body(self, piece: bytes, stream: int = 0) -> bytes:
        """The next piece of a body, or of a stream that is no HTTP."""
        if stream not in self._streams:
            if len(self._streams) >= MOST_STREAMS:
                self._streams.clear()
            self._streams[stream] = Scanner(self._placeholders)
        self._stop(self._streams[stream].feed(piece))
        return piece

    def _stop(self, name: str) -> None:
        if name:
            raise Violation(
                f"the placeholder of the secret {name} was on its way to {self._place}",
                rule="secrets",
            )


class Leaks:
    """Stops a server that sends a secret back to where it must never be. Short values would be found by chance."""

    def __init__(self, values: Mapping[bytes, str]) -> None:
        told = {value: name for value, name in values.items() if len(value) >= MIN_TOLD}
        self._scanner = Scanner(told)

    def down(self, data: bytes) -> None:
        if name := self._scanner.feed(data):
            raise Violation(f"the server sent the value of the secret {name} back", rule="secrets")


def basic_of(value: bytes) -> bytes:
    """Name and password of a field with Basic credentials, b"" for any other."""
    scheme, _, encoded = value.partition(b" ")
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(encoded.strip() + b"==")
    except (binascii.Error, ValueError):
        return b""
