"""Terminals: commands whose output comes as events and whose keys go as requests."""

from __future__ import annotations

from collections.abc import Mapping

from crucible_client._async.commands import AsyncCommand, Words, described, start_command
from crucible_client._async.http import AsyncHttp


class AsyncPty:
    """Terminals. What is started here is a command like any other: it can be listed, connected to and killed."""

    def __init__(self, http: AsyncHttp, path: str) -> None:
        self._http = http
        self._path = path

    async def start(
        self,
        command: Words = ("/bin/sh", "-i"),
        *,
        rows: int = 24,
        columns: int = 80,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
    ) -> AsyncCommand:
        surroundings = {"TERM": "xterm-256color", **(environment or {})}
        asked = described(command, surroundings, workdir, user, timeout_s, "")
        terminal = {"terminal": True, "rows": rows, "columns": columns}
        return await start_command(self._http, self._path, {**asked, **terminal})
