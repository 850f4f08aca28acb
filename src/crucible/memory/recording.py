"""Memory's writes in the ledger: entries of the session's run, or of one of the user's own where there is no session.

The entry keeps hashes. The content is one that can be erased, and its name here is that of the run and its own.
"""

from __future__ import annotations

import hashlib
import time

from crucible.errors import BadEntry, RunMissing, RunTaken
from crucible.ledger.ledger import Ledger
from crucible.ledger.steps import Kind, Step, check_run


class LedgerRecorder:
    """A Recorder and an Eraser."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def record(
        self, *, user: str, session: str, turn: int, action: str, content: bytes
    ) -> str:
        run = _run(user, session)
        step = Step(
            kind=Kind.MEMORY_WRITE,
            started_us=time.time_ns() // 1000,
            facts={"step": "memory", "action": action, "turn": turn},
        )
        try:
            entry = await self._ledger.append(run, step, input=content)
        except RunMissing:
            await self._open(run, user)
            entry = await self._ledger.append(run, step, input=content)
        return f"{run}/{entry.input}"

    async def erase(self, blob: str) -> None:
        run, _, name = blob.partition("/")
        try:
            await self._ledger.erase(run, [name], reason="forgotten")
        except (RunMissing, BadEntry):
            # The run was removed with all that it had.
            return

    async def _open(self, run: str, user: str) -> None:
        try:
            await self._ledger.open_run(run, {"of": "memory"}, user=user)
        except RunTaken:
            # Another write was quicker.
            return


def _run(user: str, session: str) -> str:
    """Where there is no session, or none whose name can be a run's, the user's own."""
    try:
        return check_run(session)
    except BadEntry:
        return f"memory-{hashlib.sha256(user.encode()).hexdigest()[:24]}"
