"""The Anthropic Messages API, as far as answers go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.providers.turns import Fault, Turn, Use, pieces

ERRORS: dict[Fault, tuple[int, str, str]] = {
    "wrong-key": (401, "authentication_error", "invalid x-api-key"),
    "unknown-model": (404, "not_found_error", "model: {model}"),
    "rate-limited": (429, "rate_limit_error", "This request would exceed your rate limit"),
    "quota": (400, "invalid_request_error", "Your credit balance is too low to access the API"),
    "refused": (400, "invalid_request_error", "messages: roles must alternate"),
    "context-too-long": (
        400,
        "invalid_request_error",
        "prompt is too long: 208310 tokens > 200000 maximum",
    ),
    "too-large": (413, "invalid_request_error", "Request exceeds the maximum size"),
    "server-error": (500, "api_error", "Internal server error"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
}


def error_body(fault: Fault, model: str, said: str = "") -> tuple[int, dict[str, Any]]:
    status, kind, message = ERRORS[fault]
    error = {"type": kind, "message": said or message.format(model=model)}
    return status, {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}


def message(turn: Turn, request: Mapping[str, Any]) -> dict[str, Any]:
    """A whole answer."""
    return {
        **_opening(turn, request),
        "content": [_block(block) for block in _blocks(turn, request)],
        "stop_reason": _stop(turn, request),
        "usage": {**_usage(turn), "output_tokens": turn.output_tokens},
    }


def events(turn: Turn, request: Mapping[str, Any]) -> Iterator[bytes]:
    """The same in pieces."""
    yield _event("message_start", message=_opening(turn, request))
    yield _event("ping")
    for index, block in enumerate(_blocks(turn, request)):
        yield from _block_events(index, block, turn.piece)
    delta = {"stop_reason": _stop(turn, request), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": turn.output_tokens})
    yield _event("message_stop")


def error_event(said: str = "Overloaded") -> bytes:
    return _event("error", error={"type": "overloaded_error", "message": said})


def _opening(turn: Turn, request: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(turn), "output_tokens": 1},
    }


def _usage(turn: Turn) -> dict[str, Any]:
    return {
        "input_tokens": turn.input_tokens,
        "cache_creation_input_tokens": turn.cache_write,
        "cache_read_input_tokens": turn.cache_read,
        "service_tier": "standard",
    }


def _blocks(turn: Turn, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if turn.thinking:
        found.append({"type": "thinking", "thinking": turn.thinking, "signature": turn.signature})
    uses, text = list(turn.uses), turn.text
    if turn.object is not None:
        wanted = request.get("tool_choice", {}).get("name") or _answer_tool(request)
        if wanted:
            uses.append(Use(name=wanted, arguments=turn.object))
        else:
            text = json.dumps(turn.object)
    if text:
        found.append({"type": "text", "text": text})
    for number, use in enumerate(uses):
        name = use.id or f"toolu_{len(request['messages'])}_{number}"
        found.append({"type": "tool_use", "id": name, "name": use.name, "input": use.arguments})
    return found


def _answer_tool(request: Mapping[str, Any]) -> str:
    """Where one of several must be called, the one for the answer comes last."""
    if request.get("tool_choice", {}).get("type") != "any":
        return ""
    return str(request["tools"][-1]["name"])


def _block(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "tool_use" and isinstance(block["input"], str):
        return {**block, "input": {}}
    return block


def _block_events(index: int, block: dict[str, Any], size: int) -> Iterator[bytes]:
    kind = block["type"]
    empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}}
    opened = {**block, **empty.get(kind, {"input": {}})}
    yield _event("content_block_start", index=index, content_block=opened)
    for delta in _deltas(block, size):
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _deltas(block: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            for text in pieces(block["thinking"], size):
                yield {"type": "thinking_delta", "thinking": text}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            for text in pieces(block["text"], size):
                yield {"type": "text_delta", "text": text}
        case _:
            whole = (
                block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            )
            for text in pieces(whole, size):
                yield {"type": "input_json_delta", "partial_json": text}


def _stop(turn: Turn, request: Mapping[str, Any]) -> str:
    if turn.stop:
        return turn.stop
    uses = any(block["type"] == "tool_use" for block in _blocks(turn, request))
    return "tool_use" if uses else "end_turn"


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
