"""What `microvmctl` is asked for: by words, or by one line of JSON on standard input that no shell has to quote."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from crucible.cli.grammar import Arguments, BadUsage
from crucible.errors import BadSetting

STDIN: Final = 0
LARGEST_REQUEST: Final = 1 << 18


def read_request(arguments: Arguments, known: tuple[str, ...]) -> dict[str, Any] | None:
    """The object on the first line of standard input if `--request` says that there is one. Nothing beyond the line
    is taken.
    """
    if not arguments.flag("request"):
        return None
    if arguments.count:
        raise BadUsage("--request takes no further words", hint="Put them into the request")
    return parse_request(_first_line(), known)


def parse_request(line: bytes, known: tuple[str, ...]) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise BadSetting("The request is not one line of JSON") from None
    if not isinstance(request, dict):
        raise BadSetting("The request is not an object")
    for key in request:
        if key not in known:
            raise BadSetting(
                f"The request has a field {key[:80]!r}, which means nothing here",
                hint=f"Known: {', '.join(known)}",
            )
    return request


def _first_line() -> bytes:
    """Byte by byte: what follows belongs to somebody else."""
    line = bytearray()
    while len(line) <= LARGEST_REQUEST:
        byte = os.read(STDIN, 1)
        if byte in (b"", b"\n"):
            return bytes(line)
        line += byte
    raise BadSetting(f"The request is larger than {LARGEST_REQUEST >> 10} KiB")
