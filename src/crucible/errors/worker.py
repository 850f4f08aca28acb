"""Workers: other machines on which sandboxes run. Each tells whose turn it is to mend what."""

from __future__ import annotations

from crucible.errors.base import SandboxError, SetupError


class WorkerUnreachable(SetupError):
    """No connection came about. Nothing was begun on the worker."""

    code = "worker-unreachable"

    def __init__(self, worker: str, why: str, *, hint: str) -> None:
        super().__init__(f"The worker {worker!r} cannot be reached: {why}", hint=hint)


class WorkerLacksCrucible(SetupError):
    """The connection came about, but there is no `microvmctl` at the other end of it."""

    code = "worker-lacks-crucible"

    def __init__(self, worker: str, why: str, version: str) -> None:
        super().__init__(
            f"The worker {worker!r} answers, but not as Crucible: {why}",
            hint=f"Install crucible {version} there, so that `microvmctl probe` works in a plain ssh command",
        )


class WorkerMismatch(SetupError):
    code = "worker-mismatch"

    def __init__(self, worker: str, theirs: str, ours: str) -> None:
        super().__init__(
            f"The worker {worker!r} has Crucible {theirs}, which does not speak as {ours} does here",
            hint=f"Install the same release on both: `pip install crucible=={ours}`",
        )


class WorkerLost(SandboxError):
    """A connection that stood has ended. What became of a command that ran is not known here."""

    code = "worker-lost"

    def __init__(self, worker: str, sandbox: str, why: str, *, is_temporary: bool) -> None:
        super().__init__(
            f"The connection to the worker {worker!r} was lost while sandbox {sandbox!r} was in use: {why}",
            hint="It was a temporary one, and the worker ends it; run the command again"
            if is_temporary
            else "It runs on; it is reached for again, and `crucible exec` works once that succeeds",
        )


class SandboxLent(SandboxError):
    """Another host has this sandbox's channel: what is done in it is done from there."""

    code = "sandbox-lent"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Sandbox {name!r} is in the hands of another host",
            hint="Use it from there, or end it here with `crucible rm --force`",
        )
