"""What can go wrong, each by a class of its own: what a server tells by its code, and what happens on the way to it.

A command that fails in a sandbox is a result and no error; `Result.check` makes one of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crucible_client import _states
from crucible_client._states import *  # noqa: F403 - every state that a server tells of
from crucible_client._states import CrucibleError, GuestRefused, Refused, SandboxError

_LONGEST_TEXT = 4096


class ServerUnreachable(CrucibleError):
    """Nobody answers at the address."""

    code = "server-unreachable"


class ConnectionLost(CrucibleError):
    """The connection ended in the middle of an answer. What was asked for may have been done."""

    code = "connection-lost"


class NoAnswer(CrucibleError):
    """The server took longer than the call was given. What was asked for may still be done."""

    code = "no-answer"


class BadAnswer(CrucibleError):
    """What came is nothing that a Crucible server would say."""

    code = "bad-answer"


class FileMissing(GuestRefused):
    """There is no such file or directory in the sandbox."""


class FileExists(GuestRefused):
    """There is something of that name in the sandbox already."""


class FileForbidden(GuestRefused):
    """The sandbox does not permit this with that file."""


class PortMissing(Refused):
    """A port of a sandbox that nobody passes on."""

    code = "port-missing"


class CommandFailed(SandboxError):
    """A command did not end with status 0; only raised by who asks for it."""

    code = "command-failed"


class CommandLost(SandboxError):
    """Its sandbox, or who held it, ended first: nobody knows how the command ended."""

    code = "command-lost"


_BY_CODE: Mapping[str, type[CrucibleError]] = {
    kind.code: kind
    for kind in vars(_states).values()
    if isinstance(kind, type) and issubclass(kind, CrucibleError)
}
_FILE_STATES: Mapping[int, type[CrucibleError]] = {
    404: FileMissing,
    409: FileExists,
    403: FileForbidden,
}


def from_problem(problem: Mapping[str, Any], status: int = 0) -> CrucibleError:
    """The error that a problem document tells of. One with a code that is not known here keeps it."""
    code = _text(problem.get("code")) or "crucible"
    kind = _BY_CODE.get(code, CrucibleError)
    told = problem.get("status")
    status = status or (told if isinstance(told, int) else 0)
    if kind is GuestRefused:
        kind = _FILE_STATES.get(status, GuestRefused)
    error = kind(
        _text(problem.get("message")) or f"The server answered with status {status}",
        hint=_text(problem.get("hint")),
        request_id=_text(problem.get("request_id")),
        status=status,
    )
    error.code = code
    return error


def _text(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""
