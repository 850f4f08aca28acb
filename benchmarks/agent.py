"""The agent's loop without its model and its tools: what a step costs by itself, with the real database, ledger,
budgets and policy beneath it; and how long a status or a cancel takes behind fifty queued generations."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.figures import AtMost, Figure
from benchmarks.rounds import Readings, milliseconds, say
from crucible.accounts.budgets import Budgets
from crucible.accounts.prices import Prices
from crucible.agent.engine import Engine
from crucible.agent.judging import PolicyJudge
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.lanes import LaneLimits
from crucible.agent.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from crucible.agent.models.base import (
    Answered,
    Model,
    ModelEvent,
    ModelRef,
    Profile,
    Purpose,
    Request,
    TextDelta,
    ToolSpec,
    Usage,
)
from crucible.agent.options import SessionOptions
from crucible.agent.parts import Parts
from crucible.agent.paying import BudgetPurse
from crucible.agent.plain import FixedTools
from crucible.agent.recording import LedgerRecorder
from crucible.agent.tools.base import Code, Context, Outcome, Use
from crucible.agent.workplace import Workplace
from crucible.ledger.ledger import Ledger
from crucible.store.database import Database

_STEPS = 16
_QUEUED = 50
_WORDS = 20
_EARLIER = 5_000
_CALL = {"name": "nothing", "arguments": '{"command": "ls -l /workspace"}'}


def measure(*, rounds: int) -> list[Figure]:
    samples: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        say(f"agent: round {number} of {rounds}")
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            readings = asyncio.run(_one(Path(name)))
        for key, value in readings.items():
            if number:
                samples.setdefault(key, []).append(value)
    return [
        Figure(
            key="agent-step",
            name="agent loop: one step (model call, judged tool call, results), without model and tool time",
            samples=milliseconds(samples.get("agent-step")),
            targets=(AtMost(limit=15),),
        ),
        Figure(
            key="agent-long-step",
            name=f"the same in a session that has {_EARLIER:,} messages already, its first step included",
            samples=milliseconds(samples.get("agent-long-step")),
        ),
        Figure(
            key="agent-status",
            name=f"status of a session behind {_QUEUED} queued generations",
            samples=milliseconds(samples.get("agent-status")),
            targets=(AtMost(limit=50),),
        ),
        Figure(
            key="agent-cancel",
            name=f"cancel of a queued generation behind {_QUEUED - 1} others",
            samples=milliseconds(samples.get("agent-cancel")),
            targets=(AtMost(limit=50),),
        ),
    ]


async def _one(root: Path) -> Readings:
    step, long_step = await _step(root, 0), await _step(root, _EARLIER)
    async with _engine(root, _Still()) as engine:
        sessions = [
            await engine.create_session(SessionOptions(memory=False)) for _ in range(_QUEUED)
        ]
        for session in sessions:
            await engine.begin(session.id, "hello")
        # All have come as far as they get before time is taken.
        while sum(lane.running + lane.waiting for lane in engine.lanes()) < _QUEUED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        began = time.perf_counter()
        await engine.session(sessions[-1].id)
        status = time.perf_counter() - began
        began = time.perf_counter()
        await engine.cancel(sessions[-1].id)
        cancel = time.perf_counter() - began
    return {
        "agent-step": step,
        "agent-long-step": long_step,
        "agent-status": status,
        "agent-cancel": cancel,
    }


async def _step(root: Path, earlier: int) -> float:
    async with _engine(root, _Instant(earlier)) as engine:
        session = await engine.create_session(
            SessionOptions(max_iterations=_STEPS + 1, memory=False)
        )
    await _give_history(root, session.id, earlier)
    async with _engine(root, _Instant(earlier)) as engine:
        await engine.session(session.id)
        began = time.perf_counter()
        answer = await engine.generate(session.id, "run it", intent="agent")
        step = (time.perf_counter() - began) / _STEPS
    if answer.end != "done" or len(answer.calls) != _STEPS:
        raise RuntimeError(f"the turn ended as {answer.end} after {len(answer.calls)} calls")
    return step


async def _give_history(root: Path, session: str, count: int) -> None:
    turn = (
        UserMessage(text="What is in the workspace? " * 8, turn=1),
        AssistantMessage(parts=(Text(text="word " * _WORDS), ToolCall(**_CALL, id="c"))),
        ToolMessage(results=(ToolResult(call_id="c", name="nothing", text="a line\n" * 150),)),
        AssistantMessage(parts=(Text(text="word " * _WORDS),)),
    )
    messages = turn * (count // len(turn))
    database = Database(_url(root))
    try:
        store = SqlSessions(database)
        record = (await store.load(session)).record
        head = replace(record, messages=len(messages))
        await store.append(head, first=0, messages=messages, events=())
    finally:
        database.close()


@asynccontextmanager
async def _engine(root: Path, model: _Instant | _Still) -> AsyncIterator[Engine]:
    database = Database(_url(root))
    ledger = Ledger(root, database)
    parts = Parts(
        store=SqlSessions(database),
        models=OneModel(model),
        workplaces=Nowhere(),
        toolbox=FixedTools(_Nothing()),
        judge=PolicyJudge(),
        recorder=LedgerRecorder(ledger),
        purse=BudgetPurse(Budgets(database), Prices()),
        # Few places, so that most of them queue.
        lane_limits=LaneLimits(generate=16, together=40),
    )
    try:
        async with Engine(parts) as engine:
            yield engine
    finally:
        ledger.close()
        database.close()


def _url(root: Path) -> str:
    return f"sqlite:///{root / 'crucible.db'}"


class _Instant:
    """Calls a tool so many times, and is done; it takes no time for it. `earlier` messages are none of its turn."""

    ref = ModelRef(provider="scripted", name="instant")
    profile = Profile(context_tokens=10_000_000, output_tokens=4_000)

    def __init__(self, earlier: int) -> None:
        self._earlier = earlier

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        for _ in range(_WORDS):
            yield TextDelta(text="word ")
        text = Text(text="word " * _WORDS)
        number = (len(request.messages) - self._earlier) // 2
        call = ToolCall(**_CALL, id=f"c{number}")
        message = AssistantMessage(parts=(text, call) if number < _STEPS else (text,))
        yield Answered(
            message=message,
            usage=Usage(input_tokens=100, output_tokens=20),
            stop="tool-use" if number < _STEPS else "end",
            model=self.ref,
        )

    async def close(self) -> None:
        pass


class _Still:
    """Never answers."""

    ref = ModelRef(provider="scripted", name="still")
    profile = _Instant.profile

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        await asyncio.Event().wait()
        yield TextDelta(text="never")

    async def close(self) -> None:
        pass


class OneModel:
    """The same under every name."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def model(self, ref: ModelRef) -> Model:
        return self._model

    def default(self, purpose: Purpose) -> ModelRef:
        return self._model.ref

    def parse(self, text: str) -> ModelRef:
        return self._model.ref


class _Nothing:
    """A tool that does nothing, and is looked at like one that runs a command."""

    spec = ToolSpec(name="nothing", description="does nothing", parameters={"type": "object"})

    def use(self, arguments: Mapping[str, Any]) -> Use:
        command = str(arguments["command"])
        code = Code(text=command, language="shell")
        return Use(tool="nothing", arguments=arguments, subject=command, code=code)

    async def run(self, use: Use, context: Context) -> Outcome:
        return Outcome(text="total 0", exit_status=0)


class Nowhere:
    def check(self, options: SessionOptions) -> None:
        pass

    def workplace(self, session: str, options: SessionOptions, *, had_sandbox: bool) -> Workplace:
        place: Any = _NoPlace()
        return place  # type: ignore[no-any-return]


class _NoPlace:
    place = None

    async def close(self, *, keep: bool = False) -> None:
        pass
