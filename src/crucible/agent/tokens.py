"""How many tokens something has, without the tokenizer of whoever counts: by estimate, and at the very most.

An estimate says when to compact. What a budget sets aside is a bound: no tokenizer makes more tokens of a text than the
text has bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
# What providers add to what is sent: marks around each message, call and tool, and their own words on how to call tools
# (Anthropic's are the longest, about 530 tokens). The dearest picture is one of eight tiles for gpt-4o-mini.
MOST_PER_REQUEST = 64
MOST_PER_MESSAGE = 32
_MOST_PER_TOOL = 64
_MOST_FOR_TOOLS = 1024
_MOST_PER_PICTURE = 50_000


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """`estimated` is about how many tokens something has, `most` how many no model counts more than."""

    estimated: int = 0
    most: int = 0

    def __add__(self, other: Weight) -> Weight:
        return Weight(estimated=self.estimated + other.estimated, most=self.most + other.most)


def weigh_message(message: Message) -> Weight:
    return Weight(estimated=estimate_message(message), most=_most_of_message(message))


def weigh_frame(request: Request) -> Weight:
    """Of what is sent with its messages."""
    return Weight(estimated=_estimate_frame(request), most=_most_of_frame(request))


def frame_of(request: Request) -> tuple[object, ...]:
    """What two requests must have in common for their frames to weigh the same."""
    return request.system, request.tools, request.schema, request.choice, request.thinking


def _estimate_frame(request: Request) -> int:
    tools = sum(
        estimate(tool.name + tool.description + json.dumps(dict(tool.parameters)))
        for tool in request.tools
    )
    schema = estimate(json.dumps(dict(request.schema.schema))) if request.schema else 0
    return estimate(request.system) + tools + schema


def _most_of_frame(request: Request) -> int:
    tools = [
        {"name": one.name, "about": one.description, **one.parameters} for one in request.tools
    ]
    schemas = [*tools, *([request.schema.schema] if request.schema else [])]
    if not schemas:
        return _bytes(request.system)
    declared = sum(_MOST_PER_TOOL + _json_bytes(one) for one in schemas)
    return _bytes(request.system) + _MOST_FOR_TOOLS + declared


def _most_of_message(message: Message) -> int:
    match message:
        case UserMessage():
            pictures = _MOST_PER_PICTURE * len(message.pictures)
            return MOST_PER_MESSAGE + _bytes(message.text) + pictures
        case AssistantMessage():
            return MOST_PER_MESSAGE + sum(_most_of_part(part) for part in message.parts)
        case ToolMessage():
            return sum(
                MOST_PER_MESSAGE
                + _bytes(result.call_id + result.name + result.text)
                + _MOST_PER_PICTURE * len(result.pictures)
                for result in message.results
            )
        case Summary():
            return 2 * MOST_PER_MESSAGE + _bytes(message.text)


def _most_of_part(part: Text | Thinking | ToolCall) -> int:
    match part:
        case Text():
            return _bytes(part.text)
        case Thinking():
            return _bytes(part.text) + _json_bytes(part.carried)
        case ToolCall():
            # Arguments may be written anew, with what is not ASCII escaped. A call that has no result is given one.
            written = max(_bytes(part.arguments), _json_bytes(part.arguments))
            return 4 * MOST_PER_MESSAGE + 2 * _bytes(part.id + part.name) + written


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _json_bytes(value: str | Mapping[str, Any]) -> int:
    return len(json.dumps(value if isinstance(value, str) else dict(value)))


def _part(part: Text | Thinking | ToolCall) -> int:
    match part:
        case Text() | Thinking():
            return estimate(part.text)
        case ToolCall():
            return estimate(part.name + part.arguments) + _PER_MESSAGE
