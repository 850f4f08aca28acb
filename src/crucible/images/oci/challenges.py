"""What a registry's 401 asks for: the `WWW-Authenticate` header, parsed. Nothing is sent here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_MAX_HEADER = 16 << 10
_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_SCHEME = re.compile(rf"\s*({_WORD})(?:\s+|\s*$|(?=,))")
_PARAMETER = re.compile(rf'\s*({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))\s*(?:,|$)')
_COMMA = re.compile(r"\s*,")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """`scheme` and the names of parameters are in lower case."""

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(headers: list[str]) -> tuple[Challenge, ...]:
    """All that can be read; the rest of a header that makes no sense is left out."""
    return tuple(challenge for header in headers for challenge in _parse(header[:_MAX_HEADER]))


def _parse(header: str) -> list[Challenge]:
    found = []
    position = 0
    while scheme := _SCHEME.match(header, position):
        position = scheme.end()
        parameters: dict[str, str] = {}
        while pair := _PARAMETER.match(header, position):
            name, quoted, bare = pair.groups()
            value = _ESCAPED.sub(r"\1", quoted) if quoted is not None else bare
            parameters.setdefault(name.lower(), value)
            position = pair.end()
        found.append(Challenge(scheme=scheme.group(1).lower(), parameters=parameters))
        if comma := _COMMA.match(header, position):
            position = comma.end()
    return found
