"""Runs a recorded session again: its calls in a fresh sandbox, as the recorded answers of the model asked for them, in
the order in which they were recorded. What comes out is held against what was recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from crucible.agent.messages import AssistantMessage, from_json
from crucible.agent.options import SessionOptions, options_from_json
from crucible.agent.pipeline import find_program
from crucible.agent.tools.base import Context, Tool
from crucible.agent.workplace import Channel, Workplace
from crucible.errors import BadToolCall, ContentGone, CrucibleError, LedgerBroken, StateDamaged

_SHOWN = 500


class RecordedStep(Protocol):
    """An entry of the ledger, as far as it is read here."""

    @property
    def number(self) -> int: ...
    @property
    def input(self) -> str | None: ...
    @property
    def output(self) -> str | None: ...
    @property
    def exit_status(self) -> int | None: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...


class RecordedRuns(Protocol):
    """Raises RunMissing; for contents ContentGone where they were erased, LedgerBroken where they were changed."""

    async def entries(self, run: str) -> Sequence[RecordedStep]: ...
    async def blob(self, run: str, name: str) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """`number` is that of the entry in the ledger, `step` what it recorded."""

    number: int
    step: str
    what: str
    recorded: str = ""
    got: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """`erased` steps ran, or could not run, without anything to hold them against."""

    run: str
    calls: int
    same: int
    erased: int
    divergence: Divergence | None


class Replayer:
    """One run, in one workplace that nobody has used."""

    def __init__(
        self, runs: RecordedRuns, run: str, workplace: Workplace, tools: Mapping[str, Tool]
    ) -> None:
        self._runs = runs
        self._run = run
        self._workplace = workplace
        self._tools = tools
        # None after an answer that was erased: whatever is called next, nobody can say that it was not asked for.
        self._asked: dict[str, tuple[str, str]] | None = {}
        self._calls = 0
        self._same = 0
        self._erased = 0

    async def replay(self) -> Replay:
        """To the first divergence, or to the end."""
        found = None
        for entry in await self._runs.entries(self._run):
            found = await self._step(entry)
            if found is not None:
                break
        return Replay(
            run=self._run,
            calls=self._calls,
            same=self._same,
            erased=self._erased,
            divergence=found,
        )

    async def _step(self, entry: RecordedStep) -> Divergence | None:
        step = str(entry.facts.get("step", ""))
        try:
            if step == "model" and not entry.facts.get("purpose"):
                return await self._model(entry)
            if step == "tool" and entry.facts.get("ran"):
                return await self._tool(entry)
        except ContentGone:
            self._erased += 1
            self._asked = None if step == "model" else self._asked
        except (LedgerBroken, StateDamaged, ValueError, KeyError, TypeError) as error:
            return Divergence(
                number=entry.number, step=step, what=f"its record is damaged: {error}"
            )
        return None

    async def _model(self, entry: RecordedStep) -> Divergence | None:
        """Takes the answer from the record: what the model would say today is nobody's matter here."""
        message = from_json((await self._content(entry.output))["message"])
        if isinstance(message, AssistantMessage):
            asked = {call.id: (call.name, call.arguments) for call in message.calls}
            if (program := find_program(message.text)) is not None and not message.calls:
                asked[""] = (program.language, program.text)
            self._asked = asked
        return None

    async def _tool(self, entry: RecordedStep) -> Divergence | None:
        recorded = await self._content(entry.input)
        call, name, arguments = str(recorded["call"]), str(recorded["tool"]), recorded["arguments"]
        asked = self._asked
        if asked is not None and call not in asked and "" not in asked:
            what = f"the model's recorded answer has no call {call[:80]!r}"
            return Divergence(number=entry.number, step=name, what=what)
        tool = self._tools.get(name)
        if tool is None:
            return Divergence(number=entry.number, step=name, what=f"there is no tool {name!r} now")
        self._calls += 1
        output, exit_status, is_error = await self._again(tool, call, arguments)
        if entry.output is None:
            expected = b""
        else:
            expected = await self._runs.blob(self._run, entry.output)
        if exit_status != entry.exit_status or is_error != bool(entry.facts.get("error")):
            what = "it ended otherwise"
            return _divergence(entry, name, what, str(entry.exit_status), str(exit_status))
        if output != expected:
            return _divergence(
                entry, name, "its output is another", _shown(expected), _shown(output)
            )
        self._same += 1
        return None

    async def _again(self, tool: Tool, call: str, arguments: Any) -> tuple[bytes, int | None, bool]:
        context = Context(
            session=self._run, call=call, workplace=self._workplace, heard=_nobody_hears
        )
        try:
            outcome = await tool.run(tool.use(arguments), context)
        except BadToolCall as error:
            return error.message.encode(errors="replace"), None, True
        whole = outcome.whole or outcome.text.encode(errors="replace")
        return whole, outcome.exit_status, outcome.is_error

    async def _content(self, name: str | None) -> Any:
        if name is None:
            raise ValueError("it has no content")
        return json.loads(await self._runs.blob(self._run, name))


async def recorded_options(runs: RecordedRuns, run: str) -> SessionOptions:
    """What the session was asked to be; the usual where that was erased or is not there."""
    for entry in await runs.entries(run):
        if entry.facts.get("step") == "session" and entry.input is not None:
            try:
                return options_from_json(json.loads(await runs.blob(run, entry.input)))
            except (CrucibleError, ValueError):
                break
    return SessionOptions()


def _divergence(entry: RecordedStep, step: str, what: str, recorded: str, got: str) -> Divergence:
    return Divergence(number=entry.number, step=step, what=what, recorded=recorded, got=got)


def _nobody_hears(channel: Channel, data: bytes) -> None:
    pass


def _shown(data: bytes) -> str:
    text = data.decode(errors="replace")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
