"""What a tool is to the engine: a description for the model, facts for the policy, and a verb."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from crucible.agent.models.base import ToolSpec
from crucible.agent.workplace import Heard, Workplace

Language = Literal["python", "javascript", "typescript", "shell"]
Reach = Literal["sandbox", "outside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What a call would run, for the inspection of risks."""

    text: str
    language: Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A call as the policy judges it and as a person is asked about it.

    `subject` is what patterns are matched against: a command line, a path, a query. `reach` is `outside` where the
    call does something that the sandbox does not hold: hands out a file, asks a server on this host. `exact` is what
    a person's `always` remembers, where the subject does not tell all that matters.
    """

    tool: str
    arguments: Mapping[str, Any]
    subject: str
    code: Code | None = None
    reach: Reach = "sandbox"
    exact: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Something for the user: shown by a tool, or handed over by `publish`."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`text` is for the model: a tool of ours has cut it already, with a note.

    `whole` is what a program wrote, up to the 8 MB that are kept of it, for the ledger; empty where the text is all.
    """

    text: str
    is_error: bool = False
    exit_status: int | None = None
    artifacts: tuple[Artifact, ...] = ()
    whole: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a call is given: the session's workplace, and who hears its output while it runs."""

    session: str
    call: str
    workplace: Workplace
    heard: Heard


class Tool(Protocol):
    """Raises BadToolCall, whose message is for the model, for arguments it cannot use."""

    @property
    def spec(self) -> ToolSpec: ...

    def use(self, arguments: Mapping[str, Any]) -> Use:
        """Checks the arguments; nothing is done yet."""
        ...

    async def run(self, use: Use, context: Context) -> Outcome:
        """A program that fails is an outcome. Cancelling this ends what it began."""
        ...


class Toolset(Protocol):
    """A source of tools that may come and go: the built-in ones, those of a skill, those of an MCP server."""

    async def tools(self) -> tuple[Tool, ...]: ...
