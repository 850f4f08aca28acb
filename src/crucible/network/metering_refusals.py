"""Refusals as each provider would word them, so that its own library raises its own error, and does not try again."""

from __future__ import annotations

import json
import math
import time
from typing import Final

from crucible.network.metering import Kind, Refusal
from crucible.network.providers import Provider

# By kind: the status, and what Anthropic and OpenAI call it.
_ANTHROPIC: Final[dict[Kind, tuple[int, str]]] = {
    "budget": (402, "billing_error"),
    "unpriced": (403, "permission_error"),
    "unmetered": (403, "permission_error"),
    "invalid": (400, "invalid_request_error"),
    "too-large": (413, "request_too_large"),
    "broken": (502, "api_error"),
}
_OPENAI: Final[dict[Kind, tuple[int, str, str]]] = {
    "budget": (429, "insufficient_quota", "insufficient_quota"),
    "unpriced": (403, "invalid_request_error", "price_unknown"),
    "unmetered": (403, "invalid_request_error", "not_allowed_under_budget"),
    "invalid": (400, "invalid_request_error", "invalid_request"),
    "too-large": (413, "invalid_request_error", "request_too_large"),
    "broken": (502, "server_error", "bad_gateway"),
}
_GEMINI: Final[dict[Kind, tuple[int, str]]] = {
    "budget": (429, "RESOURCE_EXHAUSTED"),
    "unpriced": (403, "PERMISSION_DENIED"),
    "unmetered": (403, "PERMISSION_DENIED"),
    "invalid": (400, "INVALID_ARGUMENT"),
    "too-large": (413, "INVALID_ARGUMENT"),
    "broken": (502, "UNAVAILABLE"),
}
_PHRASES: Final = {
    400: "Bad Request",
    402: "Payment Required",
    403: "Forbidden",
    413: "Content Too Large",
    429: "Too Many Requests",
    502: "Bad Gateway",
}


def refusal_answer(provider: Provider, refusal: Refusal, *, now: float | None = None) -> bytes:
    """A whole answer; the connection is to end after it."""
    status, body = _body(provider, refusal)
    text = json.dumps(body).encode()
    head = [
        f"HTTP/1.1 {status} {_PHRASES[status]}",
        "Content-Type: application/json",
        f"Content-Length: {len(text)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if refusal.kind != "broken":
        # The libraries of Anthropic and OpenAI obey it before their own rules for a status.
        head.append("x-should-retry: false")
    if refusal.resets_at:
        left = refusal.resets_at - (time.time() if now is None else now)
        head.append(f"Retry-After: {max(1, math.ceil(left))}")
    return "\r\n".join([*head, "", ""]).encode() + text


def _body(provider: Provider, refusal: Refusal) -> tuple[int, dict[str, object]]:
    message = f"crucible: {refusal.reason}"
    if provider.wire == "anthropic":
        status, kind = _ANTHROPIC[refusal.kind]
        if refusal.kind == "budget" and refusal.resets_at:
            status, kind = 429, "rate_limit_error"
        return status, {"type": "error", "error": {"type": kind, "message": message}}
    if provider.wire == "gemini":
        status, kind = _GEMINI[refusal.kind]
        return status, {"error": {"code": status, "message": message, "status": kind}}
    status, kind, code = _OPENAI[refusal.kind]
    error = {"message": message, "type": kind, "param": None, "code": code}
    # Cohere and Mistral show what stands beside it.
    return status, {"error": error, "message": message}
