"""Terminals: commands whose output comes as events and whose keys go as requests."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

from collections.abc import Mapping

from crucible_client._sync.commands import Command, Words, described, start_command
from crucible_client._sync.http import Http


class Pty:
    """Terminals. What is started here is a command like any other: it can be listed, connected to and killed."""

    def __init__(self, http: Http, path: str) -> None:
        self._http = http
        self._path = path

    def start(
        self,
        command: Words = ("/bin/sh", "-i"),
        *,
        rows: int = 24,
        columns: int = 80,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
    ) -> Command:
        surroundings = {"TERM": "xterm-256color", **(environment or {})}
        asked = described(command, surroundings, workdir, user, timeout_s, "")
        terminal = {"terminal": True, "rows": rows, "columns": columns}
        return start_command(self._http, self._path, {**asked, **terminal})
