"""Why a machine ended, from what QEMU says of it and what its kernel wrote to the console last.

A kernel that panics resets the machine (`panic=-1`), and QEMU stops it there. So a panic looks like any
other reset, except on the console, which only the guest's kernel and our agent write to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PANIC = re.compile(rb"Kernel panic - not syncing: ([^\r\n]{0,200})")
_OOM_WORDS = (b"Out of memory", b"oom-kill")
RESETS = ("guest-reset", "guest-panic")
_STATES = {
    "shutdown": "it powered itself off or its kernel stopped",
    "guest-panicked": "its kernel stopped",
    "internal-error": "its VMM failed",
}
_REASONS = {
    "guest-shutdown": "it powered itself off",
    "guest-reset": "its kernel stopped",
    "guest-panic": "its kernel stopped",
    "host-signal": "its VMM was told to stop",
    "host-qmp-quit": "it was stopped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    why: str
    is_panic: bool = False


def from_state(status: str, console: bytes) -> Ending | None:
    """Of a machine that is found in a state of QEMU's `query-status`; None if it has not ended."""
    return _explained(_STATES[status], console) if status in _STATES else None


def from_shutdown(reason: str, console: bytes) -> Ending:
    """Of QEMU's SHUTDOWN event."""
    return _explained(
        _REASONS.get(reason, f"it shut down ({reason or 'no reason given'})"), console
    )


def _explained(why: str, console: bytes) -> Ending:
    if "kernel" not in why:
        return Ending(why=why)
    ran_out = any(word in console for word in _OOM_WORDS)
    panics = _PANIC.findall(console)
    if panics:
        words = "".join(c for c in panics[-1].decode(errors="replace") if c.isprintable()).strip()
        tells_memory = "memory" in words.lower()
        after = " (after it had run out of memory)" if ran_out and not tells_memory else ""
        return Ending(why=f"the guest kernel panicked: {words}{after}", is_panic=True)
    return Ending(why="it ran out of memory" if ran_out else why)
