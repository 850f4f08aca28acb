"""The daemon as its user sees it: started, asked how it is, told to leave.

It is the owner that stays. It takes over from one that was started on demand.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crucible.client.connection import LOG_NAME, RETRY_S, Owner, raise_what_it_told
from crucible.client.exchange import Unseen, ask
from crucible.errors import OwnerUnreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

# An owner on demand that is to make way may have work to finish first.
START_DEADLINE_S = 120.0
LOSER_GRACE_S = 20.0
LEAVE_DEADLINE_S = 90.0


def daemon_command(words: Sequence[str]) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "crucible.owner_main", "--daemon", *words)


class Daemon:
    def __init__(self, home: Path) -> None:
        self._home = home

    @property
    def log(self) -> Path:
        return self._home / LOG_NAME

    def status(self, verb: str = "status") -> dict[str, Any] | None:
        """What the program that holds the sandboxes says of itself; None if there is none."""
        connection = Owner(self._home).connect_if_running()
        if connection is None:
            return None
        first = [connection]

        def again() -> Any:
            if first:
                return first.pop()
            raise OwnerUnreachable("The program that holds the sandboxes is just leaving")

        with contextlib.suppress(OwnerUnreachable):
            return ask(again, {"verb": verb}, progress=Unseen())
        return None

    def start(self, words: Sequence[str] = ()) -> tuple[dict[str, Any], bool]:
        """Its status once it serves, and whether it was started now. `words` are for a new one alone."""
        found = self._running()
        if found is not None:
            return found, False
        process = Owner(self._home, daemon_command(words)).launch()
        try:
            return self._await(process)
        finally:
            # It lives on after us, and is init's to wait for.
            process.returncode = 0
            if process.stdout is not None:
                process.stdout.close()

    def _await(self, process: Popen[bytes]) -> tuple[dict[str, Any], bool]:
        deadline = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline:
            found = self._running()
            if found is not None:
                return found, found["pid"] == process.pid
            if process.poll() is not None:
                raise_what_it_told(process)
                # Another may have been faster and still be on its way.
                deadline = min(deadline, time.monotonic() + LOSER_GRACE_S)
            time.sleep(RETRY_S)
        raise OwnerUnreachable("The daemon did not start", hint=f"Read {self.log}")

    def _running(self) -> dict[str, Any] | None:
        found = self.status("ping")
        return found if found is not None and found.get("is_daemon") else None

    def stop(self) -> int | None:
        """The pid of the program that has left, be it a daemon or one that was started on demand; None if none ran."""
        found = self.status("ping")
        if found is None:
            return None
        pid = int(found["pid"])
        self._end(pid)
        return pid

    def _end(self, pid: int) -> None:
        """Asks it to leave and waits until it has. Its sandboxes live on."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return
        try:
            self.status("shutdown")
            deadline = time.monotonic() + LEAVE_DEADLINE_S
            waiter = select.poll()
            waiter.register(pidfd, select.POLLIN)
            while not waiter.poll(100):
                if time.monotonic() > deadline:
                    raise OwnerUnreachable(
                        f"What holds the sandboxes (process {pid}) did not leave within {LEAVE_DEADLINE_S:g} s",
                        hint=f"Read {self.log}",
                    )
        finally:
            os.close(pidfd)
