"""What goes wrong in sessions of the agent."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class AgentError(CrucibleError):
    """A session of the agent cannot go on."""

    code = "agent"


class SessionMissing(AgentError, Refused):
    """Nobody knows a session of that id."""

    code = "session-missing"

    def __init__(self, session: str) -> None:
        super().__init__(f"There is no session {session!r}", hint="Start one with `crucible chat`")


class BadToolCall(AgentError):
    """For the model to read: what it should have sent."""

    code = "bad-tool-call"


class WorkplaceLost(AgentError):
    """The sandbox ended under a call. What comes next opens it again, and tells what is left."""

    code = "workplace-lost"

    def __init__(self, sandbox: str, why: str) -> None:
        super().__init__(
            f"The sandbox {sandbox!r} ended while this ran: {why}. What ran in it is gone. "
            "The next call starts it again with the files that it had",
            hint=f"Read its console with `crucible logs {sandbox} --console`",
        )
        self.why = why
