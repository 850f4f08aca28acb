"""What the provider server says is what the official SDKs' own types allow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic.types
import groq.types.chat
import openai.types.chat
import pydantic
import pytest
from tests.providers import anthropic_wire, openai_wire
from tests.providers.server import FLAVOURS
from tests.providers.turns import Turn, Use

_TURNS = [
    Turn(text="hello"),
    Turn(thinking="hm", text="hello", cache_read=7),
    Turn(text="looking", uses=(Use(name="bash", arguments={"command": "ls"}), Use(name="ls"))),
    Turn(object={"name": "Porto"}),
    Turn(text="it goes", stop="length"),
]
_OPENAI_LIKE = [flavour for flavour in FLAVOURS if flavour != "anthropic"]
_ASKED: dict[str, Any] = {
    "model": "some-model",
    "messages": [{"role": "user", "content": "hello"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def _data(frames: Iterator[bytes]) -> Iterator[Any]:
    for frame in frames:
        for line in frame.decode().splitlines():
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("flavour", _OPENAI_LIKE)
@pytest.mark.parametrize("turn", _TURNS)
def test_answers_are_what_openai_calls_a_completion(flavour: str, turn: Turn) -> None:
    openai.types.chat.ChatCompletion.model_validate(openai_wire.completion(turn, flavour, _ASKED))
    chunks = list(_data(openai_wire.chunks(turn, flavour, _ASKED)))
    for chunk in chunks:
        openai.types.chat.ChatCompletionChunk.model_validate(chunk)
    assert chunks[-1]["usage"]["completion_tokens"] == turn.output_tokens


@pytest.mark.parametrize("turn", _TURNS)
def test_answers_of_groq_are_what_groq_calls_a_completion(turn: Turn) -> None:
    groq.types.chat.ChatCompletion.model_validate(openai_wire.completion(turn, "groq", _ASKED))
    for chunk in _data(openai_wire.chunks(turn, "groq", _ASKED)):
        groq.types.chat.ChatCompletionChunk.model_validate(chunk)


@pytest.mark.parametrize("turn", [*_TURNS[:-1], Turn(text="it goes", stop="max_tokens")])
def test_answers_of_anthropic_are_what_anthropic_calls_a_message(turn: Turn) -> None:
    anthropic.types.Message.model_validate(anthropic_wire.message(turn, _ASKED))
    known: Any = pydantic.TypeAdapter(anthropic.types.RawMessageStreamEvent)
    events = list(_data(anthropic_wire.events(turn, _ASKED)))
    for event in events:
        if event["type"] != "ping":
            known.validate_python(event)
    assert events[-1] == {"type": "message_stop"}


@pytest.mark.parametrize("fault", anthropic_wire.ERRORS)
def test_errors_of_anthropic_are_what_anthropic_calls_one(fault: Any) -> None:
    _, body = anthropic_wire.error_body(fault, "some-model")
    anthropic.types.ErrorResponse.model_validate(body)
