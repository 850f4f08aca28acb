"""What of a step is held against the record. Where a text is not the same byte for byte, times and ids in it are
set aside and it is compared once more: these differ each time and say nothing about what was done."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from crucible.agent.replaying.record import Record, RecordedStep
from crucible.agent.seams import Step

Likeness = Literal["same", "alike", "other"]

_IN_ORDER = ("prompt", "model", "turn")
_ABOUT_A_CALL = ("policy", "approval", "tool", "artifact")
# Of an approval; its id, its times and the sandbox's name are others each time.
_OF_APPROVAL = ("call", "tool", "subject", "arguments", "reason", "findings")
_AROUND_S = 2 * 86_400.0
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
_TIMES_AND_IDS = re.compile(
    rf"""
      \b\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK})?(?:\s?(?:Z|[+-]\d\d:?\d\d))?\b
    | \b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\s+)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+\d{{1,2}}
      \s+{_CLOCK}(?:\s+[A-Z]{{3,4}})?(?:\s+\d{{4}})?\b
    | \b\d{{1,2}}:\d\d:\d\d(?:[.,]\d+)?\b
    | \b\d+[.,]\d+\s?(?:ns|µs|us|ms|s|sec|secs|seconds)\b
    | \b[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}}\b
    | \b0x[0-9a-f]{{6,16}}\b
    | (?<=/tmp/)tmp[.\w]{{6,12}}
    """,
    re.VERBOSE | re.IGNORECASE,
)
_EPOCH = re.compile(r"\b\d{10}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b")


class Comparing:
    """The recorder of an engine that replays: nothing is written, all is held against the record."""

    def __init__(
        self, record: Record, configure: Callable[[RecordedStep], Awaitable[None]]
    ) -> None:
        self._record = record
        self._configure = configure

    async def record(self, *steps: Step) -> str:
        blob = ""
        for step in steps:
            blob = await self._one(step)
        return blob

    async def blob(self, session: str, name: str) -> bytes | None:
        return await self._record.blob(name)

    async def _one(self, step: Step) -> str:
        record = self._record
        if record.is_over() or step.kind in ("session", "memory", "model-failed", "budget"):
            return ""
        entry = self._find(step)
        if entry is None:
            self._surplus(step)
            return ""
        if step.kind in _IN_ORDER and (missing := record.before(entry)) is not None:
            record.diverge(missing, "it did not come about again")
            return ""
        await self._compare(step, entry)
        record.take(entry)
        if step.kind == "tool":
            record.pass_over_judgements(entry)
        # What was changed in the middle of a turn, after this step.
        while (after := record.after(entry)) is not None and _is_configuring(after, step):
            await self._configure(after)
            entry = after
        # Under the recorded name: what is told later of this content is then the same, too.
        return entry.output or ""

    def _find(self, step: Step) -> RecordedStep | None:
        facts: dict[str, Any] = {}
        if step.kind in _ABOUT_A_CALL:
            facts["call"] = step.facts.get("call")
        elif step.kind == "hook":
            facts = {"name": step.name, **{key: step.facts.get(key) for key in ("point", "call")}}
        return self._record.next(step.kind, step.turn, **facts)

    def _surplus(self, step: Step) -> None:
        here = self._record.first()
        if here is None:
            here = max(self._record.all("turn"), key=lambda one: one.number, default=None)
        if here is not None:
            got = f"{step.kind} {step.name}"
            self._record.diverge(here, "another step came about, which the record has not", got=got)

    async def _compare(self, step: Step, entry: RecordedStep) -> None:
        match step.kind:
            case "model":
                await self._model(step, entry)
            case "tool":
                await self._tool(step, entry)
            case "policy":
                await self._policy(step, entry)
            case "approval":
                await self._approval(step, entry)
            case "artifact":
                await self._artifact(step, entry)
            case "turn":
                self._turn(step, entry)
            case _:
                # Said by the record itself.
                return

    async def _model(self, step: Step, entry: RecordedStep) -> None:
        """Its answer is the recorded one; compared is what it was asked."""
        record = self._record
        then, now = await record.table(entry, entry.input), json.loads(step.input)
        if entry.facts.get("name") != step.name:
            record.diverge(entry, "another model is asked", str(entry.facts.get("name")), step.name)
        for name in ("choice", "schema", "thinking"):
            if then.get(name) != now.get(name):
                what = f"the model is asked with another {name}"
                record.diverge(entry, what, json.dumps(then.get(name)), json.dumps(now.get(name)))
        if not _is_all_but_a_block(str(then.get("system", "")), str(now["system"])):
            what = "the model is given another system prompt"
            record.diverge(entry, what, str(then.get("system", "")), str(now["system"]))
        if gone := sorted(set(then.get("tools", ())) - set(now["tools"])):
            record.diverge(entry, f"the model is not offered {', '.join(map(str, gone))} any more")
        counts = _count(then), _count(now)
        if counts[0] != counts[1]:
            record.diverge(
                entry,
                "the model is told another number of messages",
                str(counts[0]),
                str(counts[1]),
            )
            return
        # Those before are of earlier calls, where they were compared.
        for old, new in zip(reversed(then.get("new", ())), reversed(now["new"]), strict=False):
            if _masked(old, entry.started_us / 1e6) != _masked(new, time.time()):
                what = "the model is told another message"
                record.diverge(entry, what, _told(old, new), _told(new, old))

    async def _tool(self, step: Step, entry: RecordedStep) -> None:
        record = self._record
        then, now = await record.table(entry, entry.input), json.loads(step.input)
        ran = bool(step.facts.get("ran"))
        record.calls += ran
        if entry.facts.get("name") != step.name or then != now:
            record.diverge(entry, "it is another call", json.dumps(then), json.dumps(now))
            return
        ends = [
            f"{'ran' if one[0] else 'did not run'}, {'failed' if one[1] else 'succeeded'}, exit status {one[2]}"
            for one in (
                (bool(entry.facts.get("ran")), bool(entry.facts.get("error")), entry.exit_status),
                (ran, step.is_error, step.exit_status),
            )
        ]
        recorded = await record.content(entry, entry.output)
        shown = recorded.decode(errors="replace"), step.output.decode(errors="replace")
        if ends[0] != ends[1]:
            record.diverge(
                entry, "it ended otherwise", f"{ends[0]}: {shown[0]}", f"{ends[1]}: {shown[1]}"
            )
            return
        match "same" if recorded == step.output else self._likeness(entry, *shown):
            case "other":
                record.diverge(entry, "its output is another", *shown)
            case found if ran:
                record.same += 1
                record.alike += found == "alike"

    async def _policy(self, step: Step, entry: RecordedStep) -> None:
        then, now = await self._record.table(entry, entry.input), json.loads(step.input)
        decisions = str(entry.facts.get("decision")), str(step.facts.get("decision"))
        if decisions[0] != decisions[1] or then.get("subject") != now["subject"]:
            self._record.diverge(
                entry,
                "the policy decides otherwise",
                f"{decisions[0]}: {then.get('subject')}",
                f"{decisions[1]}: {now['subject']}",
            )

    async def _approval(self, step: Step, entry: RecordedStep) -> None:
        then, now = await self._record.table(entry, entry.input), json.loads(step.input)
        for name in _OF_APPROVAL:
            if then.get(name) != now.get(name):
                what = f"a person is asked with another {name}"
                self._record.diverge(
                    entry, what, json.dumps(then.get(name)), json.dumps(now.get(name))
                )

    async def _artifact(self, step: Step, entry: RecordedStep) -> None:
        recorded = await self._record.content(entry, entry.output)
        name = await self._record.content(entry, entry.input)
        if entry.facts.get("name") != step.name or name != step.input:
            self._record.diverge(
                entry, "another thing is handed over", repr(name), repr(step.input)
            )
        elif recorded != step.output:
            shown = recorded.decode(errors="replace"), step.output.decode(errors="replace")
            is_text = step.name.startswith("text/")
            if not is_text or self._likeness(entry, *shown) == "other":
                sizes = f"{len(recorded)} bytes", f"{len(step.output)} bytes"
                self._record.diverge(entry, "what is handed over is another", *sizes)

    def _turn(self, step: Step, entry: RecordedStep) -> None:
        for name in ("end", "intent", "iterations"):
            if entry.facts.get(name) != step.facts.get(name):
                self._record.diverge(
                    entry,
                    f"the turn has another {name}",
                    str(entry.facts.get(name)),
                    str(step.facts.get(name)),
                )

    def _likeness(self, entry: RecordedStep, recorded: str, got: str) -> Likeness:
        if recorded == got:
            return "same"
        then, now = entry.started_us / 1e6, time.time()
        return "alike" if without_times(recorded, then) == without_times(got, now) else "other"


def without_times(text: str, around_s: float) -> str:
    """With a mark for each time and id. A bare number is a time only if it tells one about `around_s`."""

    def epoch(match: re.Match[str]) -> str:
        whole, _, rest = match.group().partition(".")
        seconds = float(f"{whole[:10]}.{whole[10:]}{rest}")
        return "<time>" if abs(seconds - around_s) < _AROUND_S else match.group()

    return _EPOCH.sub(epoch, _TIMES_AND_IDS.sub("<time or id>", text))


def _is_configuring(entry: RecordedStep, step: Step) -> bool:
    return entry.facts.get("step") == "configured" and entry.facts.get("turn") == step.turn


def _is_all_but_a_block(recorded: str, got: str) -> bool:
    """Whether they are the same but for one block that the recorded one has: what memory knew then."""
    if recorded == got:
        return True
    start = 0
    while start < min(len(recorded), len(got)) and recorded[start] == got[start]:
        start += 1
    rest, own = recorded[start:], got[start:]
    return len(recorded) > len(got) and rest.endswith(own)


def _count(told: Mapping[str, Any]) -> int:
    """Of all messages, those included that a call before had; a record of before had a hash of each."""
    return int(told["before"]) + len(told["new"]) if "before" in told else len(told["messages"])


def _masked(value: Any, around_s: float) -> Any:
    """A message without times and ids, the names of contents included."""
    match value:
        case str():
            return without_times(value, around_s)
        case dict():
            return {key: _masked(one, around_s) for key, one in value.items() if key != "blob"}
        case list():
            return [_masked(one, around_s) for one in value]
        case _:
            return value


def _told(message: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What of it is another."""
    parts = {key: value for key, value in message.items() if other.get(key) != value}
    return json.dumps(parts, sort_keys=True, ensure_ascii=False)
