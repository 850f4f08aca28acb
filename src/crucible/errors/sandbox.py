"""Sandboxes and the machines they are: what cannot be done with one, or does not work that should."""

from __future__ import annotations

from crucible.errors.base import (
    EXIT_NOT_FOUND,
    EXIT_REFUSED,
    Refused,
    SandboxError,
    Unsupported,
)


class BadName(Refused):
    code = "bad-name"

    def __init__(self, name: str, of: str) -> None:
        shown = name if len(name) <= 80 else name[:77] + "..."
        super().__init__(
            f"{shown!r} is not a {of} name",
            hint="Use 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit",
        )


class NameTaken(Refused):
    code = "name-taken"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"A sandbox named {name!r} exists already",
            hint=f"Choose another name, or remove it with `crucible rm {name}`",
        )


class SandboxMissing(Refused):
    code = "sandbox-missing"

    def __init__(self, name: str) -> None:
        shown = name if len(name) <= 80 else name[:77] + "..."
        super().__init__(
            f"There is no sandbox named {shown!r}", hint="List them with `crucible list`"
        )


class WrongState(Refused):
    """The sandbox is not in a state in which this can be done."""

    code = "wrong-state"

    def __init__(self, name: str, state: str, wanted: str, *, hint: str = "") -> None:
        super().__init__(f"Sandbox {name!r} is {state}; this needs it {wanted}", hint=hint)


class CommandMissing(Refused):
    code = "command-missing"

    def __init__(self, sandbox: str, number: int) -> None:
        super().__init__(
            f"Sandbox {sandbox!r} has no command {number} to take up",
            hint="Its output, if it ran, is in `crucible logs`",
        )


class CommandEnded(Refused):
    code = "command-ended"

    def __init__(self, sandbox: str, number: int) -> None:
        super().__init__(f"Command {number} of sandbox {sandbox!r} has ended")


class FellBehind(Refused):
    code = "fell-behind"

    def __init__(self, command: int, most_bytes: int) -> None:
        super().__init__(
            f"Whoever looked on at command {command} was more than {most_bytes >> 20} MiB behind it",
            hint="Look on again from the last event that was read",
        )


class TooManyOnlookers(Refused):
    code = "too-many-onlookers"

    def __init__(self, command: int, most: int) -> None:
        super().__init__(
            f"{most} are looking on at command {command} already",
            hint="Try again when one of them has left",
        )


class ContextMissing(Refused):
    code = "context-missing"

    def __init__(self, context: str) -> None:
        super().__init__(f"There is no context {context[:80]!r} in this sandbox, or it has ended")


class LanguageUnknown(Unsupported):
    code = "language-unknown"

    def __init__(self, language: str) -> None:
        super().__init__(
            f"Code in {language[:80]!r} cannot be run: contexts keep the state of Python alone",
            hint="Run it as a command of the sandbox",
        )


class InterpreterFailed(SandboxError):
    """A context could not be started, or ended in the middle of its code."""

    code = "interpreter-failed"


class SnapshotMissing(Refused):
    code = "snapshot-missing"

    def __init__(self, tag: str) -> None:
        super().__init__(
            f"There is no snapshot {tag!r}", hint="List them with `crucible snapshot list`"
        )


class SnapshotTaken(Refused):
    code = "snapshot-taken"

    def __init__(self, tag: str) -> None:
        super().__init__(
            f"A snapshot {tag!r} exists already",
            hint=f"Choose another tag, or remove it with `crucible snapshot remove {tag}`",
        )


class SecretMissing(Refused):
    code = "secret-missing"

    def __init__(self, sandbox: str, names: tuple[str, ...]) -> None:
        super().__init__(
            f"The values of {', '.join(names)} are not known: they are never written down",
            hint=f"Set the variables of these names and try again: `crucible start {sandbox}`",
        )


class BackendUnknown(Refused):
    code = "backend-unknown"

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(
            f"There is no backend {name!r}",
            hint=f"Known backends: {', '.join(known)}; `crucible doctor` tells which work here",
        )


class BackendUnusable(Refused):
    code = "backend-unusable"

    def __init__(self, name: str, why: str, *, hint: str = "Run `crucible doctor`") -> None:
        super().__init__(f"Backend {name!r} does not work here: {why}", hint=hint)


class IsolationUnmet(Refused):
    code = "isolation-unmet"

    def __init__(self, wanted: str, best: str) -> None:
        super().__init__(
            f"Isolation {wanted!r} was asked for, but the best this machine can give is {best!r}",
            hint="Run `crucible doctor` to see why, or lower --min-isolation",
        )


class NotEnoughMemory(Refused):
    code = "not-enough-memory"

    def __init__(self, wanted_mib: int, free_mib: int) -> None:
        super().__init__(
            f"The sandbox may need {wanted_mib} MiB of memory, but the host can spare {free_mib} MiB",
            hint="Stop other sandboxes (`crucible list`) or ask for less with --memory",
        )


class BootFailed(SandboxError):
    code = "boot-failed"


class TemplateDamaged(SandboxError):
    code = "template-damaged"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"A template was damaged: {why}", hint="It is rebuilt by itself; run again"
        )


class GuestSilent(SandboxError):
    code = "guest-silent"

    def __init__(self, sandbox: str, seconds: float) -> None:
        super().__init__(
            f"Sandbox {sandbox!r} did not answer within {seconds:g} s",
            hint=f"Read its console with `crucible logs {sandbox} --console`",
        )


class GuestGone(SandboxError):
    """The machine ended while something was waiting for it. `console` is what its kernel had said, if it is known."""

    code = "guest-gone"
    console = b""

    def __init__(self, sandbox: str, why: str) -> None:
        super().__init__(
            f"Sandbox {sandbox!r} has ended: {why}", hint="Start it again, or use a new one"
        )
        self.why = why


class GuestPanicked(GuestGone):
    code = "guest-panicked"

    def __init__(self, sandbox: str, why: str) -> None:
        super().__init__(sandbox, why)
        self.hint = f"If it still exists, read its console with `crucible logs {sandbox} --console`"


class ProtocolBroken(SandboxError):
    """The guest sent bytes that no honest agent sends."""

    code = "protocol-broken"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The guest broke the protocol: {why}",
            hint="Treat this sandbox as hostile and remove it",
        )


class GuestRefused(SandboxError):
    """The agent answered a request with FAIL. `guest_code` is one of PROTOCOL.md's codes."""

    code = "guest-refused"

    def __init__(self, guest_code: str, message: str) -> None:
        super().__init__(message)
        self.guest_code = guest_code


class CommandNotFound(GuestRefused):
    code = "command-not-found"
    exit_status = EXIT_NOT_FOUND


class CommandNotExecutable(GuestRefused):
    code = "command-not-executable"
    exit_status = EXIT_REFUSED


class HostDiskFull(SandboxError):
    code = "host-disk-full"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The host's disk is full: {path} could not be written",
            hint="Free space, or look at `crucible system df` and `crucible system prune`",
        )


class DiskTooDeep(SandboxError):
    code = "disk-too-deep"

    def __init__(self, sandbox: str, layers: int, why: str) -> None:
        super().__init__(
            f"The disk of sandbox {sandbox!r} has {layers} layers that could not be merged: {why}",
            hint="Free space on the host's disk and try again; `crucible system df` shows what takes it",
        )


class OwnerUnreachable(SandboxError):
    """The program that holds the running sandboxes could not be started or reached."""

    code = "owner-unreachable"
