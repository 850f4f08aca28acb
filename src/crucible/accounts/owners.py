"""Who holds a reservation: a process of this host, known by its pid together with the moment it began."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path


def own_mark() -> str:
    """Of this process. A fork is another process, so it is asked for each time."""
    return _mark(os.getpid()) or f"{_host()} {os.getpid()} ?"


def is_gone(owner: str) -> bool:
    """Whether that process has certainly ended. Of another host, nobody here can say."""
    if not Path("/proc/self/stat").exists():
        return False
    host, _, rest = owner.partition(" ")
    pid, _, began = rest.partition(" ")
    if host != _host() or not pid.isdecimal() or began in ("", "?"):
        return False
    return _mark(int(pid)) != owner


def _mark(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold anything; what follows the last one is numbers.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else f"{_host()} {pid} {fields[19]}"


@cache
def _host() -> str:
    """With the boot: after it, every process of before is gone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        boot = "?"
    return f"{socket.gethostname()[:64].replace(' ', '-')}/{boot}"
