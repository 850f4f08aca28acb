"""What pydantic-ai and the SDKs raise, as our errors: by kind, without keys, without what they were caused by."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from pydantic_ai import exceptions as theirs

from crucible.agent.models.access import Access, redact
from crucible.agent.models.base import ModelRef
from crucible.errors import (
    BadAnswer,
    ContextTooLong,
    ModelError,
    ModelOverloaded,
    ModelRefused,
    ModelTimedOut,
    ModelUnreachable,
    QuotaSpent,
    RateLimited,
    UnknownModel,
    WrongKey,
)

_LONGEST_WORD = 400
# What the providers write where they have no code for it.
_TOO_LONG = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "exceeds the available context size",
    "context length",
    "reduce the length of the messages",
    "inputs tokens + max_new_tokens",
    "input is too long",
)
_NO_MODEL = ("model_not_found", "does not exist", "model not found", "unable to access model")


def translate(error: Exception, ref: ModelRef, access: Access) -> ModelError:
    said = _said(error, access)
    match error:
        case theirs.ModelContextWindowExceededError():
            return _too_long(ref, said)
        case theirs.ModelAuthenticationError():
            return _wrong_key(ref, said)
        case theirs.ModelNotFoundError():
            return _no_model(ref, said)
        case theirs.ModelQuotaExceededError():
            return QuotaSpent(
                f"{ref.provider} gives {ref.name} no more: its quota is used up{said}",
                hint="Look at the plan and the billing of that account",
            )
        case theirs.ModelRateLimitError():
            return RateLimited(
                f"{ref.provider} takes no more requests for {ref.name} for now{said}",
                hint="Try again later, or set a fallback model",
                retry_after_s=error.retry_after or 0.0,
            )
        case theirs.ModelUnavailableError() | theirs.ModelServerError():
            return ModelOverloaded(
                f"{ref.provider} cannot answer for {ref.name} now{said}",
                hint="Try again later, or set a fallback model",
                retry_after_s=error.retry_after or 0.0,
            )
        case theirs.ModelTimeoutError() | theirs.ModelRequestTimeout():
            return ModelTimedOut(f"{ref} did not answer in time{said}")
        case theirs.ModelConnectionError():
            # Where it is not known how far it came, the provider may have read it.
            if error.phase in ("read", None) or error.in_stream:
                return BadAnswer(f"The answer of {ref} broke off{said}")
            return ModelUnreachable(
                f"{ref.provider} cannot be reached at {access.base_url}{said}",
                hint="Look at the network, and at the provider's address in your settings",
            )
        case theirs.ModelRequestRejectedError():
            return _rejected(ref, said)
        case theirs.ModelHTTPError():
            return _by_status(error.status_code, ref, said)
        case httpx2.TimeoutException():
            return ModelTimedOut(f"{ref} did not answer in time{said}")
        case httpx2.HTTPError():
            return BadAnswer(f"The answer of {ref} broke off{said}")
    if isinstance(error, theirs.UserError):
        return ModelRefused(f"{ref} cannot be asked this{said}")
    return BadAnswer(f"What {ref} answered cannot be understood{said}")


def _by_status(status: int, ref: ModelRef, said: str) -> ModelError:
    """For what has no kind of its own there."""
    match status:
        case 408:
            return ModelTimedOut(f"{ref} did not answer in time{said}")
        case 409 | 425:
            return ModelOverloaded(f"{ref.provider} cannot answer for {ref.name} now{said}")
        case 413:
            return _too_long(ref, said)
        case _ if 400 <= status < 500:
            return _rejected(ref, said)
    return BadAnswer(f"What {ref} answered cannot be understood{said}")


def _rejected(ref: ModelRef, said: str) -> ModelError:
    lower = said.lower().replace("`", "")
    if any(mark in lower for mark in _TOO_LONG):
        return _too_long(ref, said)
    if any(mark in lower for mark in _NO_MODEL):
        return _no_model(ref, said)
    return ModelRefused(f"{ref.provider} does not take this request{said}")


def _too_long(ref: ModelRef, said: str) -> ModelError:
    return ContextTooLong(
        f"The conversation is longer than {ref} can read{said}",
        hint="Compact it, or start a new session",
    )


def _no_model(ref: ModelRef, said: str) -> ModelError:
    return UnknownModel(
        f"{ref.provider} has no model {ref.name!r}{said}",
        hint="Look its name up with the provider, and write it as provider:name",
    )


def _wrong_key(ref: ModelRef, said: str) -> ModelError:
    return WrongKey(
        f"{ref.provider} does not accept the key{said}",
        hint=f"Set the right key for {ref.provider}",
    )


def _said(error: Exception, access: Access) -> str:
    """What the provider said of it, without the key, and no longer than a sentence or two."""
    text = _message_in(getattr(error, "body", None))
    status = getattr(error, "status_code", None)
    if not text and status is None:
        text = str(error.__cause__ or error) or type(error).__name__
    text = redact(" ".join(text.split()), [access.key])[:_LONGEST_WORD]
    shown = " ".join(str(one) for one in (status, text) if one)
    return f": {shown}" if shown else ""


def _message_in(body: Any) -> str:
    """The providers put it in `error.message`, in `message`, or in `error` itself."""
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return str(body)
    if not isinstance(body, dict):
        return ""
    inner = body.get("error", body)
    if isinstance(inner, dict):
        words = [str(inner[key]) for key in ("code", "type", "message") if inner.get(key)]
        return ": ".join(words)
    return str(inner)
