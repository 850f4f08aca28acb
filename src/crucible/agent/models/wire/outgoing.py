"""Our messages and requests as pydantic-ai has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Picture,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from crucible.agent.models.base import Effort, Request
from crucible.agent.models.catalog import Figures, Wire
from crucible.agent.models.transform import whole_characters

ANSWER_TOOL = "give_answer"
_NEVER_RUN = "This call was interrupted before it gave a result."
_SUMMARY = "Summary of the conversation so far:\n\n"
# What an Anthropic model may think, in tokens, at each effort; its answer must have room beside it.
_THOUGHT = {"low": 2048, "medium": 10_000, "high": 16_384}
_LEAST_ANSWER = 1024


def messages_of(request: Request, provider: str) -> list[ModelMessage]:
    made: list[ModelMessage] = []
    for message, results in _answered(request.messages):
        match message:
            case UserMessage():
                content = _content(message.text, message.pictures, request.pictures)
                made.append(ModelRequest(parts=[UserPromptPart(content=content)]))
            case Summary():
                text = whole_characters(_SUMMARY + message.text)
                made.append(ModelRequest(parts=[UserPromptPart(content=text)]))
            case AssistantMessage():
                parts = [part for one in message.parts for part in _part(one, provider)]
                # An answer that ended while the model thought: Anthropic refuses thoughts that nothing follows.
                while parts and isinstance(parts[-1], ThinkingPart):
                    parts.pop()
                if parts:
                    made.append(ModelResponse(parts=parts, provider_name=provider))
            case ToolMessage():
                pass
        if results:
            returns = [_return(result, request.pictures) for result in results]
            made.append(ModelRequest(parts=returns))
    return made


def parameters_of(request: Request, figures: Figures) -> ModelRequestParameters:
    tools = [
        ToolDefinition(
            name=tool.name,
            description=whole_characters(tool.description),
            parameters_json_schema=dict(tool.parameters),
            strict=False,
        )
        for tool in request.tools
    ]
    system = whole_characters(request.system)
    said = [InstructionPart(content=system)] if system else []
    common: dict[str, Any] = {"function_tools": tools, "instruction_parts": said}
    if request.schema is None:
        return ModelRequestParameters(**common)
    if figures.has_native_schema:
        wanted = OutputObjectDefinition(
            name=request.schema.name, json_schema=dict(request.schema.schema)
        )
        return ModelRequestParameters(**common, output_mode="native", output_object=wanted)
    answer = ToolDefinition(
        name=ANSWER_TOOL,
        description=f"Give the final answer: {request.schema.name}",
        parameters_json_schema=dict(request.schema.schema),
        kind="output",
        strict=False,
    )
    return ModelRequestParameters(
        **common, output_mode="tool", output_tools=[answer], allow_text_output=False
    )


def settings_of(request: Request, figures: Figures, wire: Wire) -> ModelSettings:
    most = request.max_output_tokens or figures.output_tokens
    settings = ModelSettings(max_tokens=min(most, figures.output_tokens))
    effort = _effort(request, figures, wire, settings["max_tokens"])
    if effort != "off":
        settings["thinking"] = effort
    elif figures.thinks:
        settings["thinking"] = False
    if request.tools:
        settings["tool_choice"] = request.choice
    if request.temperature is not None and effort == "off":
        settings["temperature"] = request.temperature
    if request.seed is not None and wire != "anthropic":
        settings["seed"] = request.seed
    if wire == "anthropic" and request.tools:
        # A loop sends all that was said again at each step.
        settings["cache"] = True
    return settings


def _effort(request: Request, figures: Figures, wire: Wire, most: int) -> Effort:
    """What fits into the answer. An answer that is held to a schema by a tool comes without thoughts."""
    by_tool = request.schema is not None and not figures.has_native_schema
    if not figures.thinks or by_tool or request.thinking == "off":
        return "off"
    if wire != "anthropic":
        return request.thinking
    efforts: tuple[Effort, ...] = ("high", "medium", "low")
    for effort in efforts[efforts.index(request.thinking) :]:
        if most >= _THOUGHT[effort] + _LEAST_ANSWER:
            return effort
    return "off"


def _answered(
    messages: Sequence[Message],
) -> Iterator[tuple[Message, tuple[ToolResult, ...]]]:
    """Each message with the results of its calls: providers refuse a call without one, and one without a call."""
    for number, message in enumerate(messages):
        if not isinstance(message, AssistantMessage) or not message.calls:
            yield message, ()
            continue
        following = messages[number + 1] if number + 1 < len(messages) else None
        given = following.results if isinstance(following, ToolMessage) else ()
        found = {result.call_id: result for result in given}
        yield (
            message,
            tuple(
                found.get(call.id)
                or ToolResult(call_id=call.id, name=call.name, text=_NEVER_RUN, is_error=True)
                for call in message.calls
            ),
        )


def _part(
    part: Text | Thinking | ToolCall, provider: str
) -> Iterator[TextPart | ThinkingPart | ToolCallPart]:
    match part:
        case Text():
            if part.text:
                yield TextPart(content=whole_characters(part.text))
        case Thinking():
            carried = part.carried
            # Another provider's thoughts are no use to this one, and unsigned ones are refused.
            if carried.get("provider") == provider:
                yield ThinkingPart(
                    content=whole_characters(part.text),
                    id=_text(carried.get("id")),
                    signature=_text(carried.get("signature")),
                    provider_name=provider,
                )
        case ToolCall():
            yield ToolCallPart(
                tool_name=whole_characters(part.name),
                args=_arguments(whole_characters(part.arguments)),
                tool_call_id=whole_characters(part.id),
            )


def _arguments(text: str) -> str:
    """As they were, where that is JSON: some providers refuse a conversation in which it is not."""
    try:
        if isinstance(json.loads(text), dict):
            return text
    except (ValueError, RecursionError):
        pass
    return json.dumps({"INVALID_JSON": text}) if text else "{}"


def _return(result: ToolResult, pictures: Mapping[str, bytes]) -> ToolReturnPart:
    return ToolReturnPart(
        tool_name=whole_characters(result.name),
        tool_call_id=whole_characters(result.call_id),
        content=_content(result.text, result.pictures, pictures),
        outcome="failed" if result.is_error else "success",
    )


def _content(
    text: str, named: Sequence[Picture], pictures: Mapping[str, bytes]
) -> str | list[UserContent]:
    text = whole_characters(text)
    shown: list[UserContent] = [
        BinaryContent(data=pictures[one.blob], media_type=one.media_type)
        for one in named
        if one.blob in pictures
    ]
    if not shown:
        return text
    return [text, *shown] if text else shown


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
