"""Runs, what is written about them, and the keys with which that is signed."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused, SetupError


class RunMissing(Refused):
    code = "run-missing"

    def __init__(self, run: str) -> None:
        super().__init__(
            f"There is no run {run[:80]!r}", hint="List them with `crucible runs list`"
        )


class RunTaken(Refused):
    code = "run-taken"

    def __init__(self, run: str) -> None:
        super().__init__(
            f"A run {run!r} exists already", hint=f"Look at it with `crucible runs show {run}`"
        )


class BadEntry(Refused):
    """What was to be written is too large, or nothing that can be written the same way twice."""

    code = "bad-entry"


class ContentTooLarge(Refused):
    code = "content-too-large"

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"A content of {size} bytes is more than the {most} that an entry can have",
            hint="Cut it before it is recorded, and note that in the entry's facts",
        )


class ContentGone(CrucibleError):
    """The entry is there and tells the hash; the content was erased, or is lost."""

    code = "content-gone"

    def __init__(self, run: str, name: str) -> None:
        super().__init__(
            f"The content {name[:12]} of the run {run!r} is not there any more",
            hint=f"Whether it was erased tells `crucible runs verify {run}`",
        )


class LedgerBroken(CrucibleError):
    """What is recorded of a run is not what was signed: nothing is added to it."""

    code = "ledger-broken"

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(
            f"The record of the run {run!r} is not the one that was signed: {reason}",
            hint=f"Look at it with `crucible runs verify {run}`, and go on in a new session",
        )


class LedgerUnwritable(CrucibleError):
    """A file beside the database could not be written. Nothing is recorded until that works again."""

    code = "ledger-unwritable"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"What belongs to a run cannot be written to the state directory: {reason}",
            hint="Free some space there, or look who owns it",
        )


class KeyUnusable(SetupError):
    code = "key-unusable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"The key {path} cannot be used: {reason}",
            hint="Give an Ed25519 key in PEM, as `crucible runs key` prints it",
        )


class ManifestUnreadable(Refused):
    """A file that is no export of a run, or not one whose parts can be told apart."""

    code = "manifest-unreadable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} is no export of a run: {reason}",
            hint="Make one with `crucible runs export RUN -o FILE`",
        )
