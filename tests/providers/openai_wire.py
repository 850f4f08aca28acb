"""The OpenAI Chat Completions API, as far as answers go, and what Groq, Together, DeepSeek and Ollama make of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.providers.turns import Fault, Turn, Use, pieces

# The field in which each of them has thoughts. OpenAI keeps its models' thoughts to itself.
_THOUGHTS = {
    "groq": "reasoning",
    "together": "reasoning",
    "deepseek": "reasoning_content",
    "ollama": "reasoning",
    "openai": "",
    "compatible": "reasoning_content",
}
_TOO_LONG = {
    "openai": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130012 tokens. Please reduce the length of the messages."
    ),
    "groq": "Please reduce the length of the messages or completion.",
    "together": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 131073.",
    "deepseek": "This model's maximum context length is 65536 tokens. You requested 70000 tokens.",
    "ollama": "the input length exceeds the context length",
    "compatible": "the request exceeds the available context size, try increasing it",
}
_CODES = {"openai": "context_length_exceeded", "groq": "context_length_exceeded"}
ERRORS: dict[Fault, tuple[int, str, str | None, str]] = {
    "wrong-key": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    "unknown-model": (
        404,
        "invalid_request_error",
        "model_not_found",
        "The model `{model}` does not exist or you do not have access to it.",
    ),
    "rate-limited": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests"),
    "quota": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
    "refused": (400, "invalid_request_error", None, "Invalid value for 'temperature'."),
    "context-too-long": (400, "invalid_request_error", None, ""),
    "too-large": (413, "invalid_request_error", None, "Request too large"),
    "server-error": (500, "server_error", None, "The server had an error."),
    "overloaded": (503, "service_unavailable", None, "The engine is currently overloaded."),
}


def error_body(
    fault: Fault, flavour: str, model: str, said: str = ""
) -> tuple[int, dict[str, Any]]:
    status, kind, code, message = ERRORS[fault]
    if fault == "context-too-long":
        code, message = _CODES.get(flavour), _TOO_LONG[flavour]
    text = said or message.format(model=model)
    error = {"message": text, "type": kind, "param": None, "code": code}
    if flavour == "ollama":
        # It has neither codes nor types of errors.
        error = {**error, "type": "api_error", "code": None}
        if fault == "unknown-model":
            error["message"] = said or f'model "{model}" not found, try pulling it first'
    return status, {"error": error}


def completion(turn: Turn, flavour: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """A whole answer."""
    text, uses = _said(turn, request)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if turn.thinking and _THOUGHTS[flavour]:
        message[_THOUGHTS[flavour]] = turn.thinking
    if uses:
        message["tool_calls"] = [_call(use, number, request) for number, use in enumerate(uses)]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _stop(turn, uses),
    }
    return {
        **_head("chat.completion", flavour, request),
        "choices": [choice],
        "usage": _usage(turn, flavour),
    }


def chunks(turn: Turn, flavour: str, request: Mapping[str, Any]) -> Iterator[bytes]:
    """The same in pieces."""
    yield _chunk(flavour, request, {"role": "assistant", "content": ""})
    if _THOUGHTS[flavour]:
        for text in pieces(turn.thinking, turn.piece):
            yield _chunk(flavour, request, {_THOUGHTS[flavour]: text})
    text, uses = _said(turn, request)
    for part in pieces(text, turn.piece):
        yield _chunk(flavour, request, {"content": part})
    for number, use in enumerate(uses):
        yield from _call_chunks(flavour, request, number, use, turn.piece)
    yield _chunk(flavour, request, {}, _stop(turn, uses), _usage(turn, flavour))
    if request.get("stream_options", {}).get("include_usage"):
        whole = {**_head("chat.completion.chunk", flavour, request), "choices": []}
        yield _data({**whole, "usage": _usage(turn, flavour)})
    yield b"data: [DONE]\n\n"


def error_chunk(said: str = "The server had an error.") -> bytes:
    error = {"message": said, "type": "server_error", "param": None, "code": None}
    return _data({"error": error})


def _call_chunks(
    flavour: str, request: Mapping[str, Any], number: int, use: Use, size: int
) -> Iterator[bytes]:
    whole = _call(use, number, request)
    arguments = whole["function"]["arguments"]
    opened = {**whole, "index": number, "function": {"name": use.name, "arguments": ""}}
    yield _chunk(flavour, request, {"tool_calls": [opened]})
    # Ollama sends a call in one piece.
    for part in [arguments] if flavour == "ollama" else pieces(arguments, size):
        grown = {"index": number, "function": {"arguments": part}}
        yield _chunk(flavour, request, {"tool_calls": [grown]})


def _said(turn: Turn, request: Mapping[str, Any]) -> tuple[str, list[Use]]:
    uses = list(turn.uses)
    if turn.object is None:
        return turn.text, uses
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        return turn.text, [*uses, Use(name=choice["function"]["name"], arguments=turn.object)]
    if choice == "required":
        name = request["tools"][-1]["function"]["name"]
        return turn.text, [*uses, Use(name=name, arguments=turn.object)]
    return json.dumps(turn.object), uses


def _call(use: Use, number: int, request: Mapping[str, Any]) -> dict[str, Any]:
    text = use.arguments if isinstance(use.arguments, str) else json.dumps(use.arguments)
    name = use.id or f"call_{len(request['messages'])}_{number}"
    return {"id": name, "type": "function", "function": {"name": use.name, "arguments": text}}


def _stop(turn: Turn, uses: list[Use]) -> str:
    return turn.stop or ("tool_calls" if uses else "stop")


def _usage(turn: Turn, flavour: str) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
    }
    if flavour == "openai":
        usage["prompt_tokens_details"] = {"cached_tokens": turn.cache_read, "audio_tokens": 0}
        usage["completion_tokens_details"] = {"reasoning_tokens": 0, "audio_tokens": 0}
    if flavour == "deepseek":
        usage["prompt_cache_hit_tokens"] = turn.cache_read
        usage["prompt_cache_miss_tokens"] = turn.input_tokens - turn.cache_read
    if flavour == "groq":
        usage |= {"queue_time": 0.01, "prompt_time": 0.01, "completion_time": 0.1}
        usage["total_time"] = 0.12
    return usage


def _chunk(
    flavour: str,
    request: Mapping[str, Any],
    delta: dict[str, Any],
    stop: str | None = None,
    usage: dict[str, Any] | None = None,
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
    made = {**_head("chat.completion.chunk", flavour, request), "choices": [choice]}
    if flavour == "groq" and usage:
        made["x_groq"] = {"id": "req_01jbd6g2qdfw2adyrt2az8hz4w", "usage": usage}
    return _data(made)


def _head(kind: str, flavour: str, request: Mapping[str, Any]) -> dict[str, Any]:
    head: dict[str, Any] = {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": kind,
        "created": 1741569952,
        "model": request["model"],
    }
    if flavour in ("openai", "groq", "deepseek", "ollama"):
        head["system_fingerprint"] = f"fp_{flavour}"
    return head


def _data(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
