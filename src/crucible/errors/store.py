"""The database: its address, whether it can be reached, and whether what is in it can be read."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, SetupError


class DatabaseUnreachable(SetupError):
    code = "database-unreachable"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"The database {place} cannot be reached: {reason}",
            hint="Check CRUCIBLE_DATABASE; without it, a file in the state directory is used",
        )


class DatabaseTooNew(SetupError):
    code = "database-too-new"

    def __init__(self, place: str, found: str, known: str) -> None:
        super().__init__(
            f"The database {place} was written by a newer Crucible (revision {found!r}, known {known!r})",
            hint="Upgrade Crucible, or name another database with CRUCIBLE_DATABASE",
        )


class DatabaseDamaged(SetupError):
    code = "database-damaged"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"The database {place} cannot be read: {reason}",
            hint="Put a copy of it back, or move it away to begin with an empty one",
        )


class DatabaseBusy(CrucibleError):
    """Others wrote for longer than we wait. Nothing of this transaction was kept."""

    code = "database-busy"

    def __init__(self, place: str, seconds: float) -> None:
        super().__init__(
            f"The database {place} was kept busy by others for {seconds:g} s",
            hint="Try again; `crucible daemon status` shows what is running",
        )


class DatabaseFailed(CrucibleError):
    """The database did not do what it was asked, and nothing of the transaction was kept."""

    code = "database-failed"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"The database {place} did not do what it was asked: {reason}",
            hint="Look for a full disk, or for what its server has logged",
        )
