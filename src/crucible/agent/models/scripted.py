"""A model that says what was written for it, for tests and demonstrations: `scripted:demo`, `scripted:/path/to.toml`.

It remembers nothing: where it stands in its script it sees from the conversation, so sessions never disturb each other.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import tomllib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Part,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from crucible.agent.models.base import (
    Answered,
    CallBegan,
    CallDelta,
    ModelEvent,
    ModelRef,
    Profile,
    Request,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from crucible.agent.models.catalog import SCRIPTED
from crucible.errors import (
    BadAnswer,
    BadSetting,
    ContextTooLong,
    ModelError,
    ModelOverloaded,
    ModelRefused,
    ModelTimedOut,
    ModelUnreachable,
    RateLimited,
    UnknownModel,
    WrongKey,
    suggestion,
)

_BUILT_IN = Path(__file__).with_name("scripts")
_LONGEST_SCRIPT = 1 << 20
_REMEMBERED = 1024
FAULTS: dict[str, Callable[[str], ModelError]] = {
    "rate-limited": RateLimited,
    "overloaded": ModelOverloaded,
    "unreachable": ModelUnreachable,
    "timed-out": ModelTimedOut,
    "bad-answer": BadAnswer,
    "wrong-key": WrongKey,
    "context-too-long": ContextTooLong,
    "refused": ModelRefused,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`arguments` are an object, or the very text of them, which may be anything."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. With `when`, it is for whatever that expression finds in the last message; else for its place.

    `faults` come first, one for each try. `cut` ends it in the middle with that fault.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    when: str = ""
    faults: tuple[str, ...] = ()
    cut: str = ""
    stop: StopReason = "end"
    piece: int = 16
    delay_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    replies: tuple[Reply, ...]
    calls_tools: bool = True
    context_tokens: int = 100_000
    output_tokens: int = 8_192

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Raises BadAnswer where nothing was written for this."""
        said = _last_words(messages)
        for reply in self.replies:
            if reply.when and re.search(reply.when, said):
                return reply
        place = sum(isinstance(one, AssistantMessage) for one in messages)
        ordered = [reply for reply in self.replies if not reply.when]
        if place < len(ordered):
            return ordered[place]
        raise BadAnswer(
            f"The script has {len(ordered)} answers and no word for {said[:80]!r}",
            hint="Write one more answer, or one with `when`",
        )


class ScriptedModel:
    def __init__(self, script: Script | Sequence[Reply], *, ref: ModelRef | None = None) -> None:
        self._script = script if isinstance(script, Script) else Script(replies=tuple(script))
        self._ref = ref or ModelRef(provider=SCRIPTED, name="list")
        # A request that comes again is the same object. It is held, so that no other gets its id.
        self._tries: OrderedDict[int, tuple[Request, int]] = OrderedDict()

    @property
    def ref(self) -> ModelRef:
        return self._ref

    @property
    def profile(self) -> Profile:
        return Profile(
            context_tokens=self._script.context_tokens,
            output_tokens=self._script.output_tokens,
            calls_tools=self._script.calls_tools,
            takes_schema=True,
        )

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        began = time.monotonic()
        reply = self._script.reply(request.messages)
        number = self._count(request)
        if number < len(reply.faults):
            raise fault(reply.faults[number])
        place = sum(isinstance(one, AssistantMessage) for one in request.messages)
        calls = tuple(_call(one, f"call_{place}_{n}") for n, one in enumerate(reply.calls))
        for event in _pieces(reply, calls):
            await asyncio.sleep(reply.delay_s)
            yield event
        if reply.cut:
            raise fault(reply.cut)
        parts: list[Part] = []
        if reply.thinking:
            parts.append(Thinking(text=reply.thinking))
        if reply.text:
            parts.append(Text(text=reply.text))
        yield Answered(
            message=AssistantMessage(
                parts=(*parts, *calls), model=str(self._ref), is_whole=reply.stop != "length"
            ),
            usage=_usage(reply, request),
            stop="tool-use" if calls else reply.stop,
            model=self._ref,
            duration_s=time.monotonic() - began,
        )

    async def close(self) -> None:
        self._tries.clear()

    def _count(self, request: Request) -> int:
        _, number = self._tries.pop(id(request), (request, -1))
        self._tries[id(request)] = (request, number + 1)
        if len(self._tries) > _REMEMBERED:
            self._tries.popitem(last=False)
        return number + 1


def fault(name: str) -> ModelError:
    return FAULTS[name](f"The script says: {name}")


def load_script(name: str) -> Script:
    """One that comes with Crucible, or a file. Raises UnknownModel and BadSetting."""
    path = Path(name) if name.endswith((".toml", ".json")) else _BUILT_IN / f"{name}.toml"
    known = [one.stem for one in _BUILT_IN.glob("*.toml")]
    if path.parent == _BUILT_IN and name not in known:
        raise UnknownModel(f"There is no script {name!r}", hint=suggestion(name, known))
    try:
        with path.open("rb") as file:
            data = file.read(_LONGEST_SCRIPT + 1)
    except OSError as error:
        raise UnknownModel(f"The script {name} cannot be read: {error.strerror}") from None
    if len(data) > _LONGEST_SCRIPT:
        raise BadSetting(f"The script {name} is larger than {_LONGEST_SCRIPT >> 20} MiB")
    try:
        text = data.decode()
        table = json.loads(text) if name.endswith(".json") else tomllib.loads(text)
        return parse_script(table)
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError, re.error):
        # Without its words: whoever may name a file shall not thereby read it.
        raise BadSetting(f"{name} is no script", hint="See docs/guides/models.md") from None


def parse_script(table: Mapping[str, Any]) -> Script:
    known = {one.name for one in fields(Script)} - {"replies"}
    options = {key: table[key] for key in known if key in table}
    return Script(replies=tuple(_reply(one) for one in table["answers"]), **options)


def _reply(table: Mapping[str, Any]) -> Reply:
    calls = tuple(Call(**one) for one in table.get("calls", ()))
    faults = tuple(table.get("faults", ()))
    for name in (*faults, *([table["cut"]] if table.get("cut") else [])):
        FAULTS[name]
    re.compile(table.get("when", ""))
    return Reply(**{**table, "calls": calls, "faults": faults})


def _last_words(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        match message:
            case UserMessage() | Summary():
                return message.text
            case ToolMessage():
                return "\n".join(result.text for result in message.results)
            case AssistantMessage():
                continue
    return ""


def _call(call: Call, name: str) -> ToolCall:
    text = call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments))
    return ToolCall(id=name, name=call.name, arguments=text)


def _pieces(reply: Reply, calls: Sequence[ToolCall]) -> Iterator[ModelEvent]:
    for text in _cut(reply.thinking, reply.piece):
        yield ThinkingDelta(text=text)
    for text in _cut(reply.text, reply.piece):
        yield TextDelta(text=text)
    for call in calls:
        yield CallBegan(id=call.id, name=call.name)
        for text in _cut(call.arguments, reply.piece):
            yield CallDelta(id=call.id, arguments=text)


def _cut(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), max(1, size)):
        yield text[start : start + max(1, size)]


def _usage(reply: Reply, request: Request) -> Usage:
    """As written, else by length: four characters to a token."""
    read = sum(len(_last_words([one])) for one in request.messages) + len(request.system)
    wrote = len(reply.text) + len(reply.thinking) + sum(len(str(one)) for one in reply.calls)
    return Usage(
        input_tokens=reply.input_tokens or read // 4 + 1,
        output_tokens=reply.output_tokens or wrote // 4 + 1,
    )
