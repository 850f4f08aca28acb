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


class Overloaded(Refused):
    """`retry_after_s` is when it is worth trying again."""

    code = "overloaded"

    def __init__(self, running: int, waiting: int, why: str, retry_after_s: int) -> None:
        super().__init__(
            f"The daemon has {running} temporary sandboxes at work and {waiting} waiting: {why}",
            hint=f"Try again in {retry_after_s} s, or allow more with CRUCIBLE_RUNS_MAX",
        )
        self.retry_after_s = retry_after_s

    def as_fields(self) -> dict[str, str | int]:
        return {**super().as_fields(), "retry_after_s": self.retry_after_s}
