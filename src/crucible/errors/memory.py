"""What is refused or cannot be finished when something is remembered, found or forgotten."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class MemoryFault(CrucibleError):
    """Something is wrong with what is remembered of a user."""

    code = "memory"


class MemoryMissing(MemoryFault, Refused):
    """This user has no memory of that id."""

    code = "memory-missing"

    def __init__(self, fact: str) -> None:
        super().__init__(
            f"Nothing is remembered under {fact[:80]!r}", hint="See `crucible memory list`"
        )


class MemoryOff(MemoryFault, Refused):
    """Memory is turned off for the user or the session, and something was to be remembered."""

    code = "memory-off"

    def __init__(self, user: str) -> None:
        super().__init__(
            f"Memory is turned off for {user[:80]!r}", hint="Turn it on with `crucible memory on`"
        )


class MemoryRefused(MemoryFault, Refused):
    """What was to be remembered is nothing that can be, such as a text without words."""

    code = "memory-refused"


class SecretRefused(MemoryFault, Refused):
    """What was to be remembered looks like a secret. It is not in the message either: that may end up in a log."""

    code = "memory-secret"

    def __init__(self) -> None:
        super().__init__(
            "This looks like a key, a password or the number of a card, and is not remembered",
            hint="Give secrets to a sandbox with `--secret`; it never sees them",
        )


class ForgettingIncomplete(MemoryFault):
    """The statement is gone from everything that is read, but a trace of its bytes may be left in a file."""

    code = "memory-trace-left"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"It is forgotten, but its bytes may still be in a file: {reason}",
            hint="End what else uses the database, then run `crucible memory forget` once more",
        )
