"""The daemon's log as `daemon logs` shows it: its last lines, and what comes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from crucible.cli.grammar import BadUsage

_MOST_LINES = 100_000
_TAIL_BYTES = 1 << 20
_LOOK_AGAIN_S = 0.25


def line_count(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_LINES:
        raise BadUsage(f"--lines is {text!r}", hint=f"Use a whole number up to {_MOST_LINES}")
    return int(text)


def show(path: Path, lines: int, *, follows: bool) -> None:
    file = path.open("rb")
    with file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        kept = file.read().splitlines(keepends=True)
        _write(b"".join(kept[-lines:] if lines else []))
        position = file.tell()
    while follows:
        time.sleep(_LOOK_AGAIN_S)
        position = _show_since(path, position)


def _show_since(path: Path, position: int) -> int:
    """A log that is shorter than it was has begun anew."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) < position:
            position = 0
        file.seek(position)
        _write(file.read())
        return file.tell()


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
