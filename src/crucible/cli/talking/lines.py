"""Lines that a person types: with arrow keys, with what was typed before, or with something to change in them.

Questions go to standard error, where talk goes, unless the terminal's own editing shows them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from crucible.cli.consent import is_somebody_there

HISTORY_NAME = "chat-history"
_MOST_LINES = 1000


def ask_line(question: str, *, start: str = "", is_kept: bool = False) -> str:
    """With its end, as a file gives it; empty at the end of input. `start` stands there to be changed.

    `is_kept`: the arrow keys bring it back later.
    """
    if not sys.stdout.isatty():
        sys.stderr.write(question)
        sys.stderr.flush()
        return sys.stdin.readline()
    try:
        with _editing(start, is_kept=is_kept):
            return f"{input(question)}\n"
    except EOFError:
        # The question stands alone in its line.
        sys.stderr.write("\n")
        return ""


@contextlib.contextmanager
def remembered_lines() -> Iterator[None]:
    """What was typed in conversations before, and in this one for the next; nothing where nobody types."""
    readline = _readline()
    if readline is None or not is_somebody_there():
        yield
        return
    from crucible.config import load_config

    path = Path(load_config().home) / HISTORY_NAME
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_MOST_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
            os.close(descriptor)
            readline.write_history_file(path)


@contextlib.contextmanager
def _editing(start: str, *, is_kept: bool) -> Iterator[None]:
    readline = _readline()
    if readline is None:
        yield
        return
    readline.set_auto_history(is_kept)
    readline.set_startup_hook(lambda: readline.insert_text(start))
    try:
        yield
    finally:
        readline.set_startup_hook()


def _readline() -> ModuleType | None:
    """Not every interpreter has it."""
    try:
        import readline
    except ImportError:
        return None
    return readline
