"""What our own tools have in common: arguments that are checked, and an answer for the model whatever happens."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, final

from crucible.agent.models.base import ToolSpec
from crucible.agent.tools.base import Code, Context, Outcome, Reach, Use
from crucible.agent.tools.parameters import Parameter, check, schema_of
from crucible.agent.workplace import HasNews
from crucible.errors import (
    BadToolCall,
    CrucibleError,
    GuestRefused,
    SandboxError,
    Unsupported,
    WorkplaceLost,
)

Asked = Mapping[str, Any]
# Where what was too long for the model lies in the sandbox, for it to read in parts.
OUTPUTS = "/tmp/tool-output"  # noqa: S108 - of the sandbox
_CALL = re.compile(r"[A-Za-z0-9_-]{1,64}")


class WorkTool(ABC):
    """A tool that works in the sandbox. What ends the sandbox is an answer; what keeps it from opening is raised."""

    name: ClassVar[str]
    description: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    reach: ClassVar[Reach] = "sandbox"

    @property
    @final
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=schema_of(self.parameters),
        )

    @final
    def use(self, arguments: Mapping[str, Any]) -> Use:
        asked = check(self.name, self.parameters, arguments)
        return Use(
            tool=self.name,
            arguments=dict(arguments),
            subject=self.subject(asked),
            code=self.code(asked),
            reach=self.reach,
        )

    @final
    async def run(self, use: Use, context: Context) -> Outcome:
        asked = check(self.name, self.parameters, use.arguments)
        await context.workplace.open()
        try:
            outcome = await self.work(asked, context)
        except (BadToolCall, SandboxError, Unsupported, WorkplaceLost) as error:
            outcome = Outcome(text=_words(error), is_error=True)
        return _with_news(outcome, context)

    @abstractmethod
    def subject(self, asked: Asked) -> str:
        """What the policy's patterns are matched against. Raises BadToolCall for what cannot be."""

    def code(self, asked: Asked) -> Code | None:
        return None

    @abstractmethod
    async def work(self, asked: Asked, context: Context) -> Outcome: ...


async def keep_output(context: Context, data: bytes) -> str:
    """Leaves what was too long in the sandbox; gives the words that say where, or none if it could not be left."""
    call = context.call
    if not _CALL.fullmatch(call):
        call = hashlib.sha256(call.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    path = f"{OUTPUTS}/{call}.txt"
    try:
        await context.workplace.write(path, data)
    except GuestRefused:
        return ""
    return f"; the whole is in {path}, to read in parts or to grep"


def failed(text: str) -> Outcome:
    return Outcome(text=text, is_error=True)


def _words(error: CrucibleError) -> str:
    # Hints are commands for the user of this host; the model has no use for them.
    return error.message


def _with_news(outcome: Outcome, context: Context) -> Outcome:
    workplace = context.workplace
    news = workplace.news() if isinstance(workplace, HasNews) else ""
    return replace(outcome, text=f"[{news}]\n{outcome.text}") if news else outcome
