"""How many tokens something has, without the tokenizer of whoever counts: rather too many than too few."""

from __future__ import annotations

import json
from collections.abc import Sequence

from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from crucible.agent.models.base import Request

# Tokenizers in use make a token of three to four bytes of English or code.
_BYTES_PER_TOKEN = 3
_PER_MESSAGE = 8
_PER_PICTURE = 1600


def estimate(text: str) -> int:
    return len(text.encode(errors="replace")) // _BYTES_PER_TOKEN + 1


def estimate_message(message: Message) -> int:
    match message:
        case UserMessage():
            return _PER_MESSAGE + estimate(message.text) + _PER_PICTURE * len(message.pictures)
        case AssistantMessage():
            return _PER_MESSAGE + sum(_part(part) for part in message.parts)
        case ToolMessage():
            return sum(
                _PER_MESSAGE + estimate(result.text) + _PER_PICTURE * len(result.pictures)
                for result in message.results
            )
        case Summary():
            return _PER_MESSAGE + estimate(message.text)


def estimate_messages(messages: Sequence[Message]) -> int:
    return sum(estimate_message(message) for message in messages)


def estimate_request(request: Request) -> int:
    tools = sum(
        estimate(tool.name + tool.description + json.dumps(dict(tool.parameters)))
        for tool in request.tools
    )
    schema = estimate(json.dumps(dict(request.schema.schema))) if request.schema else 0
    return estimate(request.system) + estimate_messages(request.messages) + tools + schema


def worst_request(request: Request) -> int:
    """What a budget sets aside for the input: text that is all digits and signs has a token for every two bytes."""
    return estimate_request(request) * _BYTES_PER_TOKEN // 2


def _part(part: Text | Thinking | ToolCall) -> int:
    match part:
        case Text() | Thinking():
            return estimate(part.text)
        case ToolCall():
            return estimate(part.name + part.arguments) + _PER_MESSAGE
