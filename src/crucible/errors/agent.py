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
        super().__init__(
            f"There is no session {session!r}",
            hint="List those there are with `crucible chat list`, or start one with `crucible chat`",
        )


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


class SessionBusy(AgentError, Refused):
    """A session does one turn at a time."""

    code = "session-busy"

    def __init__(self, session: str) -> None:
        super().__init__(
            f"Session {session!r} is in the middle of a turn",
            hint="Wait for its end, or cancel it first",
        )


class NothingToResume(AgentError, Refused):
    """The last turn of the session came to its end."""

    code = "nothing-to-resume"

    def __init__(self, session: str) -> None:
        super().__init__(f"Session {session!r} has nothing to go on with", hint="Give it a prompt")


class ApprovalMissing(AgentError, Refused):
    """Answered already, timed out, or never asked."""

    code = "approval-missing"

    def __init__(self, approval: str) -> None:
        super().__init__(
            f"Nothing waits for approval {approval!r}", hint="List what waits with its session"
        )


class HookBlocked(AgentError, Refused):
    """The message is for the model and the user to read."""

    code = "hook-blocked"


class StepMissing(AgentError, Refused):
    """There is no checkpoint of that step: none was asked for, or it is older than what is kept."""

    code = "step-missing"


class ReplayOver(AgentError):
    """Ends the turn of a replay that has left its record. No caller sees it: the replay tells why."""

    code = "replay-over"

    def __init__(self) -> None:
        super().__init__(
            "The replay has left its record", hint="Read what it told of the first difference"
        )


class EngineClosed(AgentError):
    """It takes no new turn while it shuts down."""

    code = "engine-closed"

    def __init__(self) -> None:
        super().__init__("The engine is shutting down", hint="Ask again when it runs")


class ObjectUnfit(AgentError):
    """What a model answered does not fit the schema, after all repairs."""

    code = "object-unfit"

    def __init__(self, faults: str) -> None:
        super().__init__(
            f"The object is still not as it was asked for: {faults[:2000]}",
            hint="Allow more repairs, or ask for less at once",
        )


class TurnMissing(AgentError, Refused):
    """A turn that never was, or was taken back."""

    code = "turn-missing"

    def __init__(self, session: str, turn: int) -> None:
        super().__init__(f"Session {session!r} has no turn {turn}", hint="Read its transcript")


class TurnCompacted(AgentError, Refused):
    """What is compacted cannot be taken back: the summary that stands for it has what came later."""

    code = "turn-compacted"

    def __init__(self, session: str, turn: int) -> None:
        super().__init__(
            f"Turn {turn} of session {session!r} was put into a summary to make room",
            hint="Choose a later turn, or ask in a new conversation",
        )


class TurnResumed(AgentError, Refused):
    """A turn without a prompt of its own: it went on with what an earlier one had left."""

    code = "turn-resumed"

    def __init__(self, session: str, turn: int, prompted: int) -> None:
        super().__init__(
            f"Turn {turn} of session {session!r} has no prompt of its own: it went on with turn {prompted}",
            hint=f"Edit turn {prompted}",
        )


class ArtifactMissing(AgentError, Refused):
    """Nothing of that name was handed over in this session."""

    code = "artifact-missing"

    def __init__(self, session: str, blob: str) -> None:
        super().__init__(
            f"Session {session!r} has no artifact {blob[:64]!r}", hint="List its artifacts"
        )


class ArtifactErased(AgentError, Refused):
    """Its bytes were erased; that it was handed over is still known."""

    code = "artifact-erased"

    def __init__(self, session: str, name: str) -> None:
        super().__init__(f"The artifact {name[:200]!r} of session {session!r} was erased")
