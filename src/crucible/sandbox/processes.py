"""Processes by an identity that outlives us: a pid together with the moment it began."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path

# As the kernel calls it.
_PF_EXITING = 0x4


def start_mark(pid: int) -> str | None:
    """When the process began, in a form that no other process of this boot or another can share."""
    try:
        fields = _fields(pid)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    if fields[0] in ("Z", "X"):
        return None
    return f"{boot[:8]}:{fields[19]}"


def is_running(pid: int | None, mark: str) -> bool:
    return pid is not None and pid > 1 and mark != "" and start_mark(pid) == mark


def is_at_work(pid: int | None, mark: str) -> bool:
    """Whether it runs and is not dying."""
    # In this order: the other way round, one that goes between the two questions would be at work again.
    return pid is not None and not is_dying(pid) and is_running(pid, mark)


def is_dying(pid: int) -> bool:
    """A killed process is there for as long as its memory takes to go, and what it has open goes in any order."""
    try:
        fields = _fields(pid)
    except OSError:
        return False
    return fields[0] not in ("Z", "X") and bool(int(fields[6]) & _PF_EXITING)


def find_by_word(word: str) -> list[int]:
    """Processes that have exactly this word on their command line."""
    wanted = word.encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if wanted in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def kill_and_wait(pid: int, mark: str, *, deadline_s: float = 10.0) -> bool:
    """Kills exactly that process and waits until it is gone. Our own child is reaped too."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        if not is_running(pid, mark):
            _reap(pid)
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        waiter = select.poll()
        waiter.register(pidfd, select.POLLIN)
        gone = bool(waiter.poll(deadline_s * 1000))
        _reap(pid)
        return gone
    finally:
        os.close(pidfd)


def _fields(pid: int) -> list[str]:
    """What the kernel tells of a process, from its state on."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2 :].split()


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
