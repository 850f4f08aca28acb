"""Commands as they are asked for and told."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import Field

from crucible.errors import BadSetting
from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Past
from crucible.sandbox.limits import Limit
from crucible.sandbox.session import Exit
from crucible.sandbox.spec import LARGEST_TIMEOUT_S
from crucible.server.models.base import Asked, Text, Told, Variables
from crucible.server.models.sandboxes import Settings
from crucible.values import asdict

MOST_WORDS = 4000
DEFAULT_OUTPUT_BYTES = 1 << 20
MOST_OUTPUT_BYTES = 16 << 20

Encoding = Literal["utf-8", "base64"]
CommandState = Literal["running", "ended", "lost"]
Side = Annotated[int, Field(ge=1, le=65535)]
Timeout = Annotated[float, Field(ge=0.001, le=LARGEST_TIMEOUT_S)]


class CommandBase(Asked):
    argv: Annotated[list[Text], Field(min_length=1, max_length=MOST_WORDS)]
    environment: Variables = {}
    workdir: Annotated[str, Field(max_length=4096)] | None = None
    user: Annotated[str, Field(max_length=256)] | None = None
    timeout_s: Timeout | None = None
    image: Annotated[str, Field(max_length=32)] = Field(
        default="", description="The further image to run it in; the first if it is empty"
    )

    def as_request(self, *, wants_input: bool) -> dict[str, Any]:
        return {
            "argv": self.argv,
            "environment": self.environment,
            "workdir": self.workdir,
            "user": self.user,
            "timeout_s": self.timeout_s,
            "image": self.image,
            "wants_input": wants_input,
        }


class NewCommand(CommandBase):
    """A command that nobody need watch: it goes on when its caller is gone, and its output is kept."""

    wants_input: bool = Field(default=False, description="Keep its input open, for POST …/input")
    terminal: bool = False
    rows: Side = 24
    columns: Side = 80

    def as_request(self, *, wants_input: bool) -> dict[str, Any]:
        terminal = {"terminal": self.terminal, "rows": self.rows, "columns": self.columns}
        return {**super().as_request(wants_input=wants_input), **terminal}


class Exec(CommandBase):
    """A command with its input and an end that is waited for."""

    input: Annotated[str, Field(max_length=2 << 20)] | None = None
    input_encoding: Encoding = "utf-8"
    on_disconnect: Literal["kill", "detach"] = Field(
        default="kill", description="What becomes of the command when the caller goes first"
    )

    def input_bytes(self) -> bytes:
        if not self.input:
            return b""
        if self.input_encoding == "utf-8":
            return self.input.encode(errors="replace")
        try:
            return base64.b64decode(self.input, validate=True)
        except (binascii.Error, ValueError):
            raise BadSetting("The input is not base64") from None


class ExecAndWait(Exec):
    max_output_bytes: Annotated[int, Field(ge=0, le=MOST_OUTPUT_BYTES)] = Field(
        default=DEFAULT_OUTPUT_BYTES, description="Of each of the two outputs; the rest is dropped"
    )
    encoding: Encoding = Field(
        default="utf-8", description="With utf-8, bytes that are none are replaced"
    )


class Run(ExecAndWait):
    """A command in a sandbox that is made for it and is gone afterwards."""

    settings: Settings = Settings()


class RunStream(Exec):
    settings: Settings = Settings()


class Ending(Told):
    """How a command ended. `status` follows the shell: 128 + signal, 124 when it timed out."""

    status: int
    signal: int | None
    timed_out: bool
    out_of_memory: bool
    too_many_processes: bool
    too_much_output: bool
    wall_s: float
    cpu_s: float
    peak_bytes: int

    @classmethod
    def of(cls, exit: Exit) -> Ending:
        return cls(**asdict(exit))


class LimitMet(Told):
    name: str
    value: str

    @classmethod
    def of(cls, limit: Limit | None) -> LimitMet | None:
        return None if limit is None else cls(name=limit.name, value=limit.value)


class Result(Told):
    """`id` names the command in its sandbox's log; a sandbox that was made for it is gone with that."""

    id: int
    exit: Ending
    limit: LimitMet | None
    output: str
    errors: str
    output_truncated: bool
    errors_truncated: bool
    encoding: Encoding


class CommandFacts(Told):
    id: int
    argv: list[str]
    user: str
    terminal: bool
    started_at: float | None
    state: CommandState = Field(
        description="`lost`: its sandbox or its holder ended first, and nobody knows how it ended"
    )
    exit: Ending | None

    @classmethod
    def of(cls, command: Execution | Past) -> CommandFacts:
        facts = command.facts
        state: CommandState = "lost" if command.exit is None else "ended"
        if isinstance(command, Execution) and not command.is_done:
            state = "running"
        return cls(
            id=command.stream,
            argv=facts.get("argv") or [],
            user=facts.get("user") or "",
            terminal=facts.get("terminal") is True,
            started_at=facts.get("at"),
            state=state,
            exit=None if command.exit is None else Ending.of(command.exit),
        )
