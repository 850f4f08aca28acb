"""Calls of models as programs write them, read before they are passed on: which model, and the worst it can come to.

What was read is what is sent: the body is written anew, so that no server can read it in another way. What would cost
more than its tokens (tools that the provider runs, faster service, other models to fall back to) is refused under a
budget, and so is whatever is not known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from crucible.network.metering import ModelCall, NotMetered
from crucible.network.providers import Provider

MAX_BODY: Final = 32 << 20
MAX_MODEL: Final = 256
MOST_OUTPUT: Final = 1_000_000
MOST_CHOICES: Final = 128
# Given to a request that names no limit of its own: Chat models of some years ago take no more than the first.
DEFAULT_OUTPUT: Final = 16_384
DEFAULT_RESPONSE: Final = 32_768
# What a provider adds to a request by itself: marks between messages, and how tools are explained to the model.
OVERHEAD: Final = 2_048

_NAME: Final = re.compile(r"[\x21-\x7e]+")
_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_GEMINI_KEY: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,63}")
_GEMINI_CALL: Final = re.compile(
    r"/v1(?:beta|alpha)?/models/([A-Za-z0-9._-]{1,128}):(generateContent|streamGenerateContent|countTokens)"
)
_MODELS: Final = re.compile(r"/models(?:/[A-Za-z0-9._:@/-]{1,256})?")
_GEMINI_MODELS: Final = re.compile(r"/v1(?:beta|alpha)?/models(?:/[A-Za-z0-9._-]{1,128})?")
_OWN_TOOLS: Final = re.compile(
    r"custom|function|local_shell|apply_patch|(?:bash|text_editor|computer|memory)_[0-9]{8}"
)
# Parts of a conversation whose tokens are no more than their bytes.
_TEXTS: Final = frozenset(
    ("text", "tool_use", "tool_result", "thinking", "redacted_thinking", "ephemeral", "function",
     "input_text", "output_text", "summary_text", "reasoning_text", "reasoning", "message", "refusal",
     "function_call", "function_call_output", "custom", "custom_tool_call", "custom_tool_call_output",
     "local_shell_call", "local_shell_call_output", "apply_patch_call", "apply_patch_call_output"),
)  # fmt: skip
# What a model was given or gave as a tool's input, which is any JSON.
_OPAQUE: Final = frozenset(("input", "arguments", "args", "response"))
_MEDIA_KEYS: Final = frozenset(("inlineData", "inline_data", "fileData", "file_data"))


_COMMON: Final = (
    "model stream temperature top_p top_k stop seed user metadata tools tool_choice service_tier"
)
_OF_OPENAI: Final = (
    "stream_options store parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention"
    " safety_identifier top_logprobs"
)


class Route(Enum):
    HARMLESS = auto()
    MESSAGES = auto()
    CHAT = auto()
    RESPONSES = auto()
    EMBEDDINGS = auto()
    GENERATE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it is to be sent. `call` is None for what costs nothing; `adds_usage`, whether we asked for a piece
    of the stream that the program did not ask for."""

    body: bytes
    route: Route
    call: ModelCall | None = None
    adds_usage: bool = False


def route_of(provider: Provider, method: str, path: str) -> Route:
    """By the path alone, exactly as it is written. Raises NotMetered for all that is not known to be counted."""
    if provider.wire == "anthropic":
        known = {
            ("POST", "/v1/messages"): Route.MESSAGES,
            ("POST", "/v1/messages/count_tokens"): Route.HARMLESS,
        }
    else:
        known = {
            ("POST", base + end): route
            for base in provider.bases
            for end, route in (
                ("/chat/completions", Route.CHAT),
                ("/responses", Route.RESPONSES),
                ("/embeddings", Route.EMBEDDINGS),
            )
            if provider.wire == "openai"
        }
    if (found := known.get((method, path))) is not None:
        return found
    if provider.wire == "gemini" and method == "POST" and (match := _GEMINI_CALL.fullmatch(path)):
        return Route.HARMLESS if match[2] == "countTokens" else Route.GENERATE
    if method == "GET" and _is_list_of_models(provider, path):
        return Route.HARMLESS
    shown = re.sub(r"[^\x21-\x7e]", "?", path)[:120]
    raise NotMetered(
        "unmetered", f"{method[:16]} {shown} is not counted, so a budget does not allow it"
    )


def read_request(provider: Provider, route: Route, path: str, body: bytes) -> Asked:
    """Raises NotMetered."""
    if route is Route.HARMLESS:
        return Asked(body=body, route=route)
    keys = _GEMINI_KEY if route is Route.GENERATE else _KEY
    values = _parse(body, keys)
    for name in [name for name, value in values.items() if value is None]:
        del values[name]
    for name in values:
        if name not in _KNOWN[route]:
            raise NotMetered("unmetered", f"{name}: it is not known what that adds to the price")
    bound = len(body) + OVERHEAD
    read = _READERS[route]
    return read(provider, path, values, bound)


def _messages(provider: Provider, path: str, values: dict[str, Any], bound: int) -> Asked:
    _refuse_unless(values, "speed", ("standard",))
    _refuse_unless(values, "inference_geo", ("global", "not_available"))
    _refuse_unless(values, "service_tier", ("auto", "standard_only"))
    _check_tools(values.get("tools"))
    if "compact" in json.dumps(values.get("context_management", "")):
        raise NotMetered("unmetered", "compaction by the provider is not counted by its request")
    output = _whole(values, "max_tokens", 0)
    if not output:
        raise NotMetered("invalid", "max_tokens: a whole number above 0 is needed")
    is_bounded = _is_text((values.get("system"), values.get("messages")))
    return _asked(provider, Route.MESSAGES, values, bound if is_bounded else None, output)


def _chat(provider: Provider, path: str, values: dict[str, Any], bound: int) -> Asked:
    _refuse_unless(values, "service_tier", ("auto", "default", "flex", "on_demand"))
    if values.get("modalities") not in (None, ["text"]):
        raise NotMetered("unmetered", "output other than text is not counted by its tokens")
    _check_tools(values.get("tools"))
    choices = _whole(values, "n", 1)
    if not 1 <= choices <= MOST_CHOICES:
        raise NotMetered("invalid", f"n: a whole number from 1 to {MOST_CHOICES} is needed")
    output = max(_whole(values, "max_tokens", 0), _whole(values, "max_completion_tokens", 0))
    if not output:
        output = DEFAULT_OUTPUT
        values["max_completion_tokens" if provider.name == "openai" else "max_tokens"] = output
    is_bounded = _is_text(values.get("messages"))
    adds_usage = _ask_for_usage(provider, values)
    return _asked(
        provider, Route.CHAT, values, bound if is_bounded else None, output * choices, adds_usage
    )


def _responses(provider: Provider, path: str, values: dict[str, Any], bound: int) -> Asked:
    _refuse_unless(values, "service_tier", ("auto", "default", "flex", "on_demand"))
    _refuse_unless(values, "background", (False,))
    _check_tools(values.get("tools"))
    output = _whole(values, "max_output_tokens", 0)
    if not output:
        output = values["max_output_tokens"] = DEFAULT_RESPONSE
    is_bounded = (
        _is_text(values.get("input"))
        and values.get("previous_response_id") is None
        and values.get("conversation") is None
    )
    return _asked(provider, Route.RESPONSES, values, bound if is_bounded else None, output)


def _embeddings(provider: Provider, path: str, values: dict[str, Any], bound: int) -> Asked:
    is_bounded = _is_text(values.get("input"))
    return _asked(provider, Route.EMBEDDINGS, values, bound if is_bounded else None, 0)


def _generate(provider: Provider, path: str, values: dict[str, Any], bound: int) -> Asked:
    model = path.rpartition("/")[2].partition(":")[0]
    for tool in values.get("tools") or ():
        if not isinstance(tool, dict) or set(tool) - {
            "functionDeclarations",
            "function_declarations",
        }:
            raise NotMetered("unmetered", "a tool that the provider runs costs more than tokens")
    name = "generation_config" if "generation_config" in values else "generationConfig"
    config = values.setdefault(name, {})
    if not isinstance(config, dict):
        raise NotMetered("invalid", f"{name}: an object is needed")
    _check_keys(config, _GEMINI_KEY)
    for key in config:
        if key.replace("_", "").lower() in _OTHER_OUTPUT:
            raise NotMetered("unmetered", "output other than text is not counted by its tokens")
        if key.replace("_", "").lower() in _BOUNDS and key not in _BOUND_NAMES:
            raise NotMetered("invalid", f"the name {key[:40]!a} is not clear")
    choices = _whole(config, "candidateCount", 0) or _whole(config, "candidate_count", 0) or 1
    output = _whole(config, "maxOutputTokens", 0) or _whole(config, "max_output_tokens", 0)
    if not output:
        output = config["maxOutputTokens"] = DEFAULT_OUTPUT
        config.pop("max_output_tokens", None)
    is_bounded = _is_text(values.get("contents")) and not {"cachedContent", "cached_content"} & set(
        values
    )
    call = _call(provider, model, bound if is_bounded else None, output * choices)
    return Asked(body=_written(values), route=Route.GENERATE, call=call)


_READERS: Final[Mapping[Route, Callable[[Provider, str, dict[str, Any], int], Asked]]] = {
    Route.MESSAGES: _messages,
    Route.CHAT: _chat,
    Route.RESPONSES: _responses,
    Route.EMBEDDINGS: _embeddings,
    Route.GENERATE: _generate,
}


def _names(*texts: str) -> frozenset[str]:
    return frozenset(name for text in texts for name in text.split())


def _in_both_forms(text: str) -> frozenset[str]:
    """As Google takes them: `tool_config` and `toolConfig`."""
    return _names(text) | {
        re.sub(r"_(.)", lambda one: one[1].upper(), name) for name in _names(text)
    }


_BOUND_NAMES: Final = _in_both_forms("max_output_tokens candidate_count")
_BOUNDS: Final = frozenset(("maxoutputtokens", "candidatecount"))
_OTHER_OUTPUT: Final = frozenset(("responsemodalities", "speechconfig", "imageconfig"))
# What may stand in a request, spelled as its provider does: nothing else is passed on.
_KNOWN: Final = {
    Route.MESSAGES: _names(
        _COMMON,
        "max_tokens messages system stop_sequences thinking output_config cache_control context_management",
        "diagnostics inference_geo speed user_profile_id workspace_id",
    ),
    Route.CHAT: _names(
        _COMMON,
        _OF_OPENAI,
        "messages max_tokens max_completion_tokens n frequency_penalty presence_penalty repetition_penalty min_p",
        "functions function_call logit_bias logprobs modalities reasoning_effort reasoning reasoning_format",
        "include_reasoning response_format verbosity thinking safe_prompt random_seed prompt_mode usage",
    ),
    Route.RESPONSES: _names(
        _COMMON,
        _OF_OPENAI,
        "input instructions max_output_tokens max_tool_calls include previous_response_id conversation",
        "reasoning text truncation background",
    ),
    Route.EMBEDDINGS: _names(
        "model input user dimensions encoding_format output_dimension output_dtype"
    ),
    Route.GENERATE: _in_both_forms(
        "contents tools tool_config safety_settings system_instruction generation_config cached_content"
    ),
}


def _asked(
    provider: Provider,
    route: Route,
    values: dict[str, Any],
    bound: int | None,
    output: int,
    adds_usage: bool = False,
) -> Asked:
    model = values.get("model")
    if not isinstance(model, str) or not _NAME.fullmatch(model) or len(model) > MAX_MODEL:
        raise NotMetered("invalid", "model: the name of a model is needed")
    call = _call(provider, model, bound, output)
    return Asked(body=_written(values), route=route, call=call, adds_usage=adds_usage)


def _call(provider: Provider, model: str, bound: int | None, output: int) -> ModelCall:
    if "search" in model.lower() or model.endswith(":online") or "compound" in model:
        raise NotMetered("unmetered", f"{model} searches by itself, which costs more than tokens")
    if output > MOST_OUTPUT:
        raise NotMetered("invalid", f"more than {MOST_OUTPUT} tokens of output were asked for")
    return ModelCall(provider=provider.name, model=model, input_tokens=bound, output_tokens=output)


def _parse(body: bytes, keys: re.Pattern[str]) -> dict[str, Any]:
    try:
        values = json.loads(
            body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant
        )
    except (ValueError, RecursionError) as error:
        told = error.args[0] if isinstance(error, _Ambiguous) else "the body is not JSON"
        raise NotMetered("invalid", str(told)) from None
    if not isinstance(values, dict):
        raise NotMetered("invalid", "the body is no JSON object")
    _check_keys(values, keys)
    return values


def _check_keys(values: dict[str, Any], keys: re.Pattern[str]) -> None:
    """Servers that take names in any case, or with and without underscores, must not see two of one."""
    seen: set[str] = set()
    for key in values:
        plain = key.replace("_", "").lower()
        if not keys.fullmatch(key) or plain in seen:
            raise NotMetered("invalid", f"the name {key[:40]!a} is not clear")
        seen.add(plain)


class _Ambiguous(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Ambiguous("the body names something twice")
    return found


def _constant(text: str) -> Any:
    raise _Ambiguous(f"{text} is no JSON")


def _written(values: dict[str, Any]) -> bytes:
    try:
        return json.dumps(values, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, RecursionError):
        raise NotMetered("invalid", "a number in the body is too large") from None


def _whole(values: Mapping[str, Any], name: str, otherwise: int) -> int:
    value = values.get(name)
    if value is None:
        return otherwise
    if type(value) is not int or not 0 < value <= MOST_OUTPUT:
        raise NotMetered("invalid", f"{name}: a whole number from 1 to {MOST_OUTPUT} is needed")
    return value


def _refuse_unless(values: Mapping[str, Any], name: str, allowed: tuple[object, ...]) -> None:
    if values.get(name) is not None and values[name] not in allowed:
        raise NotMetered("unmetered", f"{name} other than {allowed[0]!r} is charged differently")


def _check_tools(tools: object) -> None:
    """Those that the program runs itself; what a provider runs is charged by the use, and fills the context."""
    if tools is None:
        return
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise NotMetered("invalid", "tools: a list of objects is needed")
    for tool in tools:
        kind = tool.get("type", "custom")
        if not isinstance(kind, str) or not _OWN_TOOLS.fullmatch(kind):
            shown = str(kind)[:40]
            raise NotMetered(
                "unmetered", f"the tool {shown!a} is run by the provider, at its own price"
            )


def _is_text(part: object) -> bool:
    """Whether what a model is given is no more than what stands here: no pictures, no files, nothing kept elsewhere."""
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            if part.get("type", "text") not in _TEXTS or _MEDIA_KEYS & part.keys():
                return False
            waiting += [value for key, value in part.items() if key not in _OPAQUE]
    return True


def _ask_for_usage(provider: Provider, values: dict[str, Any]) -> bool:
    if values.get("stream") is not True or provider.tells_usage:
        return False
    options = values.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise NotMetered("invalid", "stream_options: an object is needed")
    had = bool(options and options.get("include_usage"))
    values["stream_options"] = {**(options or {}), "include_usage": True}
    return not had


def _is_list_of_models(provider: Provider, path: str) -> bool:
    if ".." in path or "//" in path:
        return False
    if provider.wire == "gemini":
        return _GEMINI_MODELS.fullmatch(path) is not None
    return any(
        path.startswith(base) and _MODELS.fullmatch(path[len(base) :]) for base in provider.bases
    )
