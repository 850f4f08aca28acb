"""What pydantic-ai tells of an answer, as our events and our message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from crucible.agent.messages import AssistantMessage, Json, Part, Text, Thinking, ToolCall
from crucible.agent.models.base import (
    CallBegan,
    CallDelta,
    ModelEvent,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from crucible.agent.models.transform import whole_characters
from crucible.agent.models.wire.outgoing import ANSWER_TOOL

# More than any model reads or writes in one call.
_MOST_TOKENS = 100_000_000
_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "length": "length",
    "content_filter": "refusal",
    "tool_call": "tool-use",
}


class Listening:
    """Turns events into ours. A call of the tool that holds an answer to its schema is text to us."""

    def __init__(self) -> None:
        self._calls: dict[int, ToolCallPart] = {}

    def events(self, event: Any) -> Iterator[ModelEvent]:
        if isinstance(event, PartStartEvent):
            yield from self._started(event.index, event.part)
        elif isinstance(event, PartDeltaEvent):
            yield from self._grown(event.index, event.delta)

    def _started(self, index: int, part: Any) -> Iterator[ModelEvent]:
        match part:
            case TextPart(content=text) if text:
                yield TextDelta(text=whole_characters(text))
            case ThinkingPart(content=text) if text:
                yield ThinkingDelta(text=whole_characters(text))
            case ToolCallPart():
                self._calls[index] = part
                if part.tool_name != ANSWER_TOOL:
                    yield CallBegan(
                        id=whole_characters(part.tool_call_id),
                        name=whole_characters(part.tool_name),
                    )
                yield from self._argued(part, part.args)

    def _grown(self, index: int, delta: Any) -> Iterator[ModelEvent]:
        match delta:
            case TextPartDelta(content_delta=text) if text:
                yield TextDelta(text=whole_characters(text))
            case ThinkingPartDelta(content_delta=text) if text:
                yield ThinkingDelta(text=whole_characters(text))
            case ToolCallPartDelta() if index in self._calls:
                yield from self._argued(self._calls[index], delta.args_delta)

    def _argued(
        self, call: ToolCallPart, arguments: str | dict[str, Any] | None
    ) -> Iterator[ModelEvent]:
        text = json.dumps(arguments) if isinstance(arguments, dict) else arguments or ""
        if not text:
            return
        if call.tool_name == ANSWER_TOOL:
            yield TextDelta(text=text)
        else:
            yield CallDelta(id=call.tool_call_id, arguments=text)


def parts_of(response: ModelResponse, provider: str) -> tuple[Part, ...]:
    return tuple(made for part in response.parts for made in _part(part, provider))


def usage_of(usage: RequestUsage) -> Usage:
    """Counts that cannot be are not believed, and then none of them is: it is as if nothing had been told."""
    counts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )
    if not all(type(count) is int and 0 <= count <= _MOST_TOKENS for count in counts):
        return Usage()
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


def stop_of(response: ModelResponse, message: AssistantMessage) -> StopReason:
    if message.calls:
        return "tool-use"
    stop = _STOPS.get(response.finish_reason or "", "other")
    # The tool that holds an answer to its schema was no tool to whoever asked.
    return "end" if stop == "tool-use" else stop


def _part(part: Any, provider: str) -> Iterator[Part]:
    match part:
        case TextPart():
            if part.content:
                yield Text(text=whole_characters(part.content))
        case ThinkingPart():
            if part.content or part.signature:
                text = whole_characters(part.content)
                yield Thinking(text=text, carried=_carried(part, provider))
        case ToolCallPart():
            arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
            arguments, name = whole_characters(arguments), whole_characters(part.tool_name)
            if name == ANSWER_TOOL:
                yield Text(text=arguments)
            else:
                yield ToolCall(
                    id=whole_characters(part.tool_call_id), name=name, arguments=arguments
                )


def _carried(part: ThinkingPart, provider: str) -> dict[str, Json]:
    carried: dict[str, Json] = {"provider": provider}
    if part.id:
        carried["id"] = part.id
    if part.signature:
        carried["signature"] = part.signature
    return carried
