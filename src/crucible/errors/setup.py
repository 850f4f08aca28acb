"""What this machine lacks, and state that this version cannot read."""

from __future__ import annotations

from crucible.errors.base import SetupError


class PrerequisiteMissing(SetupError):
    code = "prerequisite-missing"


class KernelMissing(SetupError):
    code = "kernel-missing"

    def __init__(self, why: str) -> None:
        super().__init__(f"The guest kernel is not usable: {why}", hint="Run `crucible setup`")


class AgentMissing(SetupError):
    code = "agent-missing"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The guest agent is not built: {path} does not exist", hint="Run `make agent`"
        )


class BuildFailed(SetupError):
    code = "build-failed"


class StateTooNew(SetupError):
    code = "state-too-new"

    def __init__(self, found: int, known: int, path: str) -> None:
        super().__init__(
            f"The state in {path} was written by a newer Crucible (format {found}, known {known})",
            hint="Upgrade Crucible, or set CRUCIBLE_HOME to another directory",
        )


class StateDamaged(SetupError):
    code = "state-damaged"
