"""What `microvmctl` writes and ends with: one JSON object on each line, and a status that never changes its meaning."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from crucible.errors import EXIT_REFUSED, CrucibleError

CONTRACT: Final = 1
STDOUT: Final = 1

FINE, FAILED, BAD_REQUEST, MISSING, WRONG_STATE, NOT_READY, BUSY, SANDBOX_FAILED = range(8)

_STATUSES = {
    MISSING: ("sandbox-missing", "image-missing", "image-not-found", "command-not-found"),
    WRONG_STATE: ("wrong-state", "name-taken", "sandbox-lent"),
    NOT_READY: (
        "setup", "prerequisite-missing", "kernel-missing", "agent-missing", "image-not-built",
        "image-damaged", "backend-unusable", "isolation-unmet", "state-damaged", "state-too-new",
    ),
    BUSY: ("overloaded", "not-enough-memory", "host-disk-full", "daemon-running"),
    SANDBOX_FAILED: (
        "sandbox", "boot-failed", "guest-gone", "guest-panicked", "guest-silent", "protocol-broken",
        "template-damaged", "owner-unreachable", "worker-lost", "vmm-gone", "vmm-refused",
    ),
}  # fmt: skip
_STATUS_OF = {code: status for status, codes in _STATUSES.items() for code in codes}


def status_of(error: CrucibleError) -> int:
    usual = BAD_REQUEST if error.exit_status == EXIT_REFUSED else FAILED
    return _STATUS_OF.get(error.code, BAD_REQUEST if error.code == "guest-refused" else usual)


def write_line(fields: dict[str, Any]) -> None:
    """Raises BrokenPipeError when nobody reads any more."""
    rest = memoryview(json.dumps(fields, separators=(",", ":")).encode() + b"\n")
    while rest:
        rest = rest[os.write(STDOUT, rest) :]


def write_event(event: str, **fields: Any) -> None:
    write_line({"event": event, **fields})


def succeed(**fields: Any) -> int:
    """The last line. A stream without one was cut short."""
    write_line({"contract": CONTRACT, "ok": True, **fields})
    return FINE


def fail(error: CrucibleError) -> int:
    told = {"code": error.code, "message": error.message, "hint": error.hint}
    write_line({"contract": CONTRACT, "ok": False, "error": told})
    return status_of(error)
