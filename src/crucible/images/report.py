"""How long work tells where it is. Whoever shows progress hands one of these in."""

from __future__ import annotations

from typing import Protocol

# The stage of what a person should read, not only see pass by.
NOTICE = "note"


class Report(Protocol):
    """Called at every step. `stage` names the work ("kernel"), `detail` what it does just now."""

    def __call__(self, stage: str, detail: str) -> None: ...


def silent(stage: str, detail: str) -> None:
    """A report that nobody reads."""
