"""The way of models that call no tools: they write one program in a fenced block, it runs in the sandbox, they are
shown what it printed, and write another or answer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from crucible.agent.messages import ToolCall, ToolResult

MOST_REPAIRS = 3
_LONGEST_PROGRAM = 100_000
_FENCE = re.compile(r"```[ \t]*([A-Za-z0-9_+#-]*)[^\n]*\n(.*?)(?:\n```|```|\Z)", re.DOTALL)
_PYTHON = frozenset(("", "python", "python3", "py", "tool_code", "code"))
_SHELL = frozenset(("bash", "sh", "shell", "console"))
_SHOWN = 6000
_BARE_OBJECT = re.compile(r"<[^<>\n]{1,200}(?:<\w{1,80}>)?[^<>\n]{0,200} at 0x[0-9a-f]+>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    language: Literal["python", "bash"]
    text: str

    def call(self, turn: int, iteration: int) -> ToolCall:
        """The same call that a model with tools would have made: it passes the same gates."""
        field = "code" if self.language == "python" else "command"
        return ToolCall(
            id=f"program-{turn}-{iteration}",
            name=self.language,
            arguments=json.dumps({field: self.text}),
        )


def find_program(text: str) -> Program | None:
    """The last fenced block in a language that can be run. One whose fence never ends counts."""
    found = None
    for match in _FENCE.finditer(text):
        name, body = match.group(1).lower(), match.group(2).strip("\n")
        if not body.strip() or len(body) > _LONGEST_PROGRAM:
            continue
        if name in _PYTHON:
            found = Program(language="python", text=body)
        elif name in _SHELL:
            found = Program(language="bash", text=body)
    return found


def is_bare_object(result: ToolResult) -> bool:
    """Whether a program printed what Python says of a thing that it does not show: `<generator object at 0x…>`."""
    return _BARE_OBJECT.fullmatch(result.text.strip()) is not None


def say_result(result: ToolResult, *, is_failed: bool, may_repair: bool) -> str:
    """What the model is told of its program."""
    text = result.text if len(result.text) <= _SHOWN else result.text[:_SHOWN] + "\n[cut]"
    if is_failed:
        again = " Write the whole corrected program." if may_repair else ""
        return f"The program failed:\n{text}\n{again}".rstrip()
    return f"The program printed:\n{text}\nAnswer the question with it, in plain words."


def say_what_ran(program: Program, result: ToolResult) -> str:
    """The answer where the model is too small to be trusted with the last word: what ran, and what it printed."""
    state = "failed with" if result.is_error else "printed"
    printed = result.text.strip() or "nothing"
    return (
        f"I ran this program in the sandbox:\n\n```{program.language}\n{program.text}\n```\n\n"
        f"It {state}:\n\n```\n{printed}\n```"
    )
