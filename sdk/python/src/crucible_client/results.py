"""What commands write, and how they end."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crucible_client import errors
from crucible_client.reading import Reader

Stream = Literal["stdout", "stderr"]
_SHOWN_OUTPUT = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Some bytes of a command, in the order in which they were written to that stream."""

    stream: Stream
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")

    @classmethod
    def read(cls, kind: str, told: Mapping[str, Any]) -> Output:
        reader = Reader(told)
        stream: Stream = "stdout" if kind == "output" else "stderr"
        if "text" in told:
            return cls(stream=stream, data=reader.text("text").encode(errors="replace"))
        try:
            return cls(stream=stream, data=base64.b64decode(reader.text("base64"), validate=True))
        except (binascii.Error, ValueError):
            raise errors.BadAnswer("The server's output is not base64") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a command ended. `status` follows the shell: 128 + signal, 124 when its time was over."""

    status: int
    signal: int | None
    timed_out: bool
    out_of_memory: bool
    wall_s: float
    cpu_s: float
    peak_bytes: int

    @classmethod
    def read(cls, told: Any) -> Exit:
        reader = Reader(told)
        return cls(
            status=reader.whole("status"),
            signal=reader.whole_or_none("signal"),
            timed_out=reader.claim("timed_out"),
            out_of_memory=reader.claim("out_of_memory"),
            wall_s=reader.number("wall_s"),
            cpu_s=reader.number("cpu_s"),
            peak_bytes=reader.whole("peak_bytes"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A command that has ended, and what it wrote: of each stream as much as was asked for."""

    exit: Exit
    stdout_bytes: bytes
    stderr_bytes: bytes
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    limit: str = ""

    @property
    def exit_code(self) -> int:
        return self.exit.status

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")

    @property
    def ok(self) -> bool:
        return self.exit.status == 0

    def check(self) -> Result:
        """Itself, if it succeeded; raises CommandFailed."""
        if self.ok:
            return self
        said = (self.stderr or self.stdout).strip()[-_SHOWN_OUTPUT:]
        why = f"; {self.limit}" if self.limit else ""
        raise errors.CommandFailed(
            f"The command ended with status {self.exit_code}{why}{': ' if said else ''}{said}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandInfo:
    """`state` is `lost` when its sandbox ended first, and nobody knows how it ended."""

    id: int
    argv: Sequence[str]
    user: str
    terminal: bool
    started_at: float | None
    state: str
    exit: Exit | None

    @classmethod
    def read(cls, told: Any) -> CommandInfo:
        reader = Reader(told)
        exit = reader.table_or_none("exit")
        return cls(
            id=reader.whole("id"),
            argv=reader.texts("argv"),
            user=reader.text("user"),
            terminal=reader.claim("terminal"),
            started_at=reader.number_or_none("started_at"),
            state=reader.text("state"),
            exit=None if exit is None else Exit.read(exit),
        )
