"""What goes wrong with the daemon: it runs already, or it has more to do than it takes on."""

from __future__ import annotations

from crucible.errors.base import Refused


class DaemonRunning(Refused):
    code = "daemon-running"

    def __init__(self) -> None:
        super().__init__(
            "The daemon of this state directory is running already",
            hint="See `crucible daemon status`, or stop it with `crucible daemon stop`",
        )
