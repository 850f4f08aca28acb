"""The events of a sandbox's network: a line of JSON each; what came to nothing is told at once as well."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.sandbox.doors.notices import Notices

if TYPE_CHECKING:
    from crucible.network.events import Event

LOG_NAME = "network.jsonl"
OLDER_NAME = "network.older.jsonl"
_MOST_BYTES = 8 << 20
_MOST_KEPT = 200


class NetworkLog:
    """An `EventSink`: a line of JSON for each event, and a notice for what was refused or failed.

    To the program in the machine the two look alike: its connection is reset.
    """

    def __init__(self, directory: Path, notices: Notices) -> None:
        self._path = directory / LOG_NAME
        self._older = directory / OLDER_NAME
        self._notices = notices
        self._kept: list[dict[str, Any]] = []

    def record(self, event: Event) -> None:
        line = event.as_json()
        if len(self._kept) < _MOST_KEPT:
            self._kept.append(line)
        with contextlib.suppress(OSError):
            self._write(json.dumps(line) + "\n")
        self.repeat(event)

    def repeat(self, event: Event) -> None:
        if event.outcome != "allowed":
            hint = f". {event.hint}" if event.hint else ""
            self._notices.tell(
                f"network: {event.outcome} {event.host}:{event.port}: {event.reason}{hint}"
            )

    def take(self) -> list[dict[str, Any]]:
        """What happened since this was last asked, at most some hundreds of events."""
        taken, self._kept = self._kept, []
        return taken

    def _write(self, line: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_size > _MOST_BYTES:
                self._path.replace(self._older)
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def network_logs(directory: Path) -> list[Path]:
    """The files in which a sandbox's events are, in order."""
    return [path for name in (OLDER_NAME, LOG_NAME) if (path := directory / name).is_file()]
