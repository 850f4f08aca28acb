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
