"""Those who say again what was said: the model, the people who were asked, the hooks, and tools that reach outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from crucible.agent.approvals import Approvals, Waiting
from crucible.agent.facts import ApprovalAnswer
from crucible.agent.hooks.chain import Hooks
from crucible.agent.hooks.points import HookRun, Point, Ruling
from crucible.agent.messages import AssistantMessage, from_json
from crucible.agent.models.base import (
    Answered,
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
from crucible.agent.replaying.record import Record, RecordedStep, step_of, turn_of
from crucible.agent.seams import NamedModels, Toolbox
from crucible.agent.session import Session
from crucible.agent.tools.base import Context, Outcome, Tool, Use
from crucible.agent.workplace import Workplace
from crucible.errors import BudgetSpent, CrucibleError, ReplayOver

# Where nobody knows any more what a model could do.
_ANY = Profile(context_tokens=1 << 30, output_tokens=1 << 20)
# It hands over a file of the sandbox to who watches, and nobody watches a replay.
_RUNS_ALTHOUGH_OUTSIDE = ("publish",)


class Stage:
    """What all players share: the record, and the session once there is one."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.session: Callable[[], Session] = _nobody

    @property
    def turn(self) -> int:
        open_turn = self.session().record.turn
        return open_turn.number if open_turn else self.session().record.turns

    async def end_turn(self, what: str) -> None:
        """The record knows nothing of this: the turn was ended there, and is ended as it was. Returns never."""
        number = self.turn
        if (later := self.record.next("model", number)) is not None:
            self.record.end(later, f"the record has not how {what} came out before it")
            raise ReplayOver
        await self.record.calls_of(number)
        self.record.stop_if_over()
        entry = self.record.end_of(number)
        turn = self.session().turn
        end = entry.facts.get("end") if entry is not None else "interrupted"
        if end == "cancelled" and turn is not None:
            turn.cancel()
            await asyncio.Event().wait()
        if end == "interrupted" and turn is not None:
            turn.leave(for_another=False)
            await asyncio.Event().wait()
        if end == "budget-spent":
            raise BudgetSpent(
                scope="record", measure="tokens", period="total",
                limit=0, spent=0, reserved=0, wanted=0,
            )  # fmt: skip
        if end in ("done", "too-many-steps") and entry is not None:
            self.record.diverge(entry, f"the turn goes on with {what}", str(end))
        raise ReplayOver


class PlayedModels:
    """Every model of the record, with the answers it gave."""

    def __init__(self, stage: Stage, profiles: Mapping[str, Profile]) -> None:
        self._stage = stage
        self._profiles = profiles

    def model(self, ref: ModelRef) -> PlayedModel:
        return PlayedModel(self._stage, ref, self._profiles.get(str(ref), _ANY))

    def parse(self, text: str) -> ModelRef:
        provider, _, name = text.partition(":")
        return ModelRef(provider=provider, name=name)

    def default(self, purpose: Purpose) -> ModelRef:
        """Settings may name another today."""
        record = self._stage.record
        talks = {turn_of(one) for one in record.all("turn") if one.facts.get("intent") == "chat"}
        asked = sorted(
            record.all("model"), key=lambda one: (turn_of(one) in talks) != (purpose == "chat")
        )
        return self.parse(str(asked[0].facts.get("name", "")) if asked else "")


@dataclass(frozen=True, slots=True)
class PlayedModel:
    _stage: Stage
    ref: ModelRef
    profile: Profile

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        record = self._stage.record
        record.stop_if_over()
        entry = record.next("model", self._stage.turn)
        if entry is None:
            if draft := await _draft(record):
                yield TextDelta(text=draft)
            await self._stage.end_turn("another question to the model")
            return
        said = await record.table(entry, entry.output)
        try:
            answered = _answered(said)
        except (KeyError, TypeError, ValueError, CrucibleError) as error:
            record.diverge(entry, f"its record is damaged: {error}")
            raise ReplayOver from None
        if answered.message.text:
            yield TextDelta(text=answered.message.text)
        yield answered

    async def close(self) -> None:
        pass


class PlayedApprovals(Approvals):
    """People answer at once, what they answered then."""

    def __init__(self, parts: Parts, stage: Stage) -> None:
        super().__init__(parts)
        self._stage = stage

    async def wait(self, waiting: Waiting) -> ApprovalAnswer:
        record, call = self._stage.record, waiting.approval.call
        record.stop_if_over()
        entry = record.next("approval", self._stage.turn, call=call[:100])
        if entry is None:
            await self._stage.end_turn(f"the question whether {waiting.approval.tool} may run")
            raise ReplayOver
        said = await record.table(entry, entry.output)
        return ApprovalAnswer(
            decision=said["decision"],
            by=str(said.get("by", "")),
            note=str(said.get("note", "")),
            arguments=said.get("arguments"),
        )


class PlayedHooks(Hooks):
    """No hook is asked: what they said and changed is in the record."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage
        self._points = {entry.facts.get("point") for entry in stage.record.all("hook")}

    def has(self, point: Point) -> bool:
        return point in self._points and point not in ("before-session", "before-prompt")

    async def ask(
        self, point: Point, *, session: str, user: str, data: Mapping[str, Any], tool: str = ""
    ) -> Ruling:
        record, turn = self._stage.record, self._stage.turn
        record.stop_if_over()
        runs: list[HookRun] = []
        now, blocked = data, ""
        for entry in _rulings(record, turn, point, str(data.get("call", ""))[:100]):
            change = (await record.table(entry, entry.input))["change"] if entry.input else None
            reason = (await record.content(entry, entry.output)).decode(errors="replace")
            name, verdict = str(entry.facts.get("name")), entry.facts.get("verdict")
            runs.append(
                HookRun(hook=name, point=point, verdict=verdict, duration_s=0.0, reason=reason)  # type: ignore[arg-type]
            )
            now = {**now, **(change or {})}
            if entry.facts.get("blocked", verdict == "block"):
                blocked = f"Hook {name!r}: {reason}"
        return Ruling(data=now, runs=tuple(runs), blocked=blocked)


class PlayedTools:
    """The session's tools. What reaches outside is not done again: its recorded result is given."""

    def __init__(self, stage: Stage, toolbox: Toolbox) -> None:
        self._stage = stage
        self._toolbox = toolbox

    async def tools(
        self, session: str, options: SessionOptions, workplace: Workplace
    ) -> tuple[Tool, ...]:
        found = await self._toolbox.tools(session, options, workplace)
        return tuple(_Watched(self._stage, tool) for tool in found)

    def missing(self, session: str) -> Mapping[str, str]:
        return self._toolbox.missing(session)

    async def leave(self, session: str) -> None:
        await self._toolbox.leave(session)

    async def close(self) -> None:
        """They are the engine's own."""


@dataclass(frozen=True, slots=True)
class _Watched:
    _stage: Stage
    _tool: Tool

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    def use(self, arguments: Mapping[str, Any]) -> Use:
        return self._tool.use(arguments)

    async def run(self, use: Use, context: Context) -> Outcome:
        record = self._stage.record
        record.stop_if_over()
        entry = record.next("tool", self._stage.turn, call=context.call[:100])
        if entry is None:
            # It never came to its end: it may never do.
            await self._stage.end_turn(f"a call of {use.tool}")
            raise ReplayOver
        if use.reach == "outside" and use.tool not in _RUNS_ALTHOUGH_OUTSIDE:
            output = await record.content(entry, entry.output)
            return Outcome(
                text=output.decode(errors="replace"),
                is_error=bool(entry.facts.get("error")),
                exit_status=entry.exit_status,
                whole=output,
            )
        return await self._tool.run(use, context)


async def recorded_profiles(record: Record, models: NamedModels) -> dict[str, Profile]:
    """What each model could do then; today's figures for a record that has none."""
    found: dict[str, Profile] = {}
    for entry in record.all("model"):
        name = str(entry.facts.get("name", ""))
        if name in found:
            continue
        told = (await record.table(entry, entry.input)).get("profile")
        try:
            found[name] = Profile(**told) if told else models.model(models.parse(name)).profile
        except (CrucibleError, TypeError):
            found[name] = _ANY
    return found


async def _draft(record: Record) -> str:
    """What a model had said when it was cut off: kept in no step, but told to the model that came next."""
    entry = record.next("model")
    if entry is None:
        return ""
    for form in (await record.table(entry, entry.input)).get("new", ()):
        message = from_json(form)
        if isinstance(message, AssistantMessage) and not message.is_whole:
            return message.text
    return ""


def _rulings(record: Record, turn: int, point: Point, call: str) -> list[RecordedStep]:
    """What hooks said the next time they were asked, one after the other."""
    found: list[RecordedStep] = []
    for entry in record.left():
        is_it = step_of(entry) == "hook" and turn_of(entry) == turn
        if is_it and (entry.facts.get("point"), entry.facts.get("call", "")) == (point, call):
            if any(one.facts.get("name") == entry.facts.get("name") for one in found):
                break
            found.append(entry)
        elif found and not call:
            break
    return found


def _answered(said: Mapping[str, Any]) -> Answered:
    message = from_json(said["message"])
    if not isinstance(message, AssistantMessage):
        raise TypeError("it is no answer")
    model = said["model"]
    return Answered(
        message=message,
        usage=Usage(**{name: int(value) for name, value in said["usage"].items()}),
        stop=said["stop"],
        model=ModelRef(provider=str(model["provider"]), name=str(model["name"])),
    )


def _nobody() -> Session:
    raise RuntimeError("there is no session yet")
