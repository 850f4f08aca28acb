"""Heroku's Procfile: `name: command` a line. Anything may be in it, since it comes with a project."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

_MAX_BYTES = 64 << 10
_MAX_PROCESSES = 100
_LINE = re.compile(r"([A-Za-z0-9_-]{1,63})\s*:\s*(\S.*)\Z")


class Process(NamedTuple):
    name: str
    words: tuple[str, ...]


def read_procfile(path: str) -> list[Process]:
    """Its processes, `web` first. What is not one is passed over, as Heroku does."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return []
    found = [process for line in text.splitlines() if (process := _parse(line.strip()))]
    return sorted(found[:_MAX_PROCESSES], key=lambda process: process.name != "web")


def _parse(line: str) -> Process | None:
    match = _LINE.match(line)
    if match is None:
        return None
    return Process(match[1], tuple(_words(match[2])))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
