"""An engine alone: nothing is priced, remembered or refused. For tests and for programs that embed it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from crucible.agent.models.base import ModelRef, Usage
from crucible.agent.options import PolicyRules, SessionOptions
from crucible.agent.seams import Asks, Hold, Learned, Recollection, Spend, Step, Verdict
from crucible.agent.tools.base import Tool, Use
from crucible.agent.workplace import Workplace

_MOST_STEPS = 10_000


class MemoryRecorder:
    """Keeps the newest steps and their blobs in this process."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.blobs: dict[str, bytes] = {}

    async def record(self, *steps: Step) -> str:
        name = ""
        for step in steps:
            if len(self.steps) < _MOST_STEPS:
                self.steps.append(step)
            name = hashlib.sha256(step.output).hexdigest() if step.output else ""
            if name:
                self.blobs[name] = step.output
        return name

    async def blob(self, session: str, name: str) -> bytes | None:
        return self.blobs.get(name)


class _NoHold:
    async def settle(
        self,
        *,
        usage: Usage | None = None,
        model: ModelRef | None = None,
        sandbox_s: float = 0.0,
        iterations: int = 0,
        calls: int = 0,
    ) -> float | None:
        return None

    async def settle_at_worst(self, model: ModelRef) -> None:
        pass


class NoPurse:
    async def reserve(self, spend: Spend) -> Hold:
        return _NoHold()


class NoMemory:
    async def recall(self, user: str, session: str, text: str) -> Recollection:
        return Recollection()

    async def summarized(self, user: str, session: str, *, covers: int, text: str) -> None:
        pass

    async def forgotten(self, user: str) -> int:
        return 0

    async def learn(
        self, user: str, session: str, turn: int, text: str, ask: Asks | None
    ) -> Learned:
        return Learned()


class AllowAll:
    """For who works in a sandbox that holds nothing of value."""

    def check(self, rules: PolicyRules) -> None:
        pass

    def judge(self, rules: PolicyRules, use: Use) -> Verdict:
        return Verdict(decision="allow", reason="everything is allowed")


class FixedTools:
    def __init__(self, *tools: Tool) -> None:
        self._tools = tools

    async def tools(
        self, session: str, options: SessionOptions, workplace: Workplace
    ) -> tuple[Tool, ...]:
        return self._tools

    def missing(self, session: str) -> Mapping[str, str]:
        return {}

    async def leave(self, session: str) -> None:
        pass

    async def close(self) -> None:
        pass


class NoChronicle:
    """Nobody looks for anything."""

    async def ended(self, session: str, turn: int, *, said: str, answer: str, model: str) -> None:
        pass

    async def retracted(self, session: str, from_turn: int) -> None:
        pass

    async def gone(self, session: str) -> None:
        pass
