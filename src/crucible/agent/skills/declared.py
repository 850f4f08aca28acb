"""The tools of a skill as it declares them, in a JSON file beside its `SKILL.md`. Pure; input is hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from crucible.errors import BadSkill, suggestion

LARGEST = 256 << 10
MOST_TOOLS = 32
LONGEST_TIMEOUT_S = 3600.0
USUAL_TIMEOUT_S = 120.0
LARGEST_BINARY = 512 << 20
_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

Architecture = Literal["amd64", "arm64"]
Runs = Literal["python", "shell", "javascript", "program"]
_COMMON = ("name", "description", "parameters", "timeout_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A file of the skill. It gets the arguments as JSON on its standard input; what it prints is the answer."""

    path: str
    runs: Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A request made from within the sandbox, by its rules of what may be reached.

    `{name}` in the address and in header values stands for an argument; those that the address does not name are the
    query of a GET, and the JSON body of anything else.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a program comes from: a file of the skill, or an address. Its bytes must have this hash."""

    sha256: str
    path: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """A program that is fetched when it is first called; `arguments` may have `{name}` for the call's own."""

    sources: Mapping[Architecture, Source]
    arguments: tuple[str, ...] = ()


Backend = Script | Http | Binary


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTool:
    name: str
    description: str
    parameters: Mapping[str, Any]
    backend: Backend
    timeout_s: float = USUAL_TIMEOUT_S


def parse_tools(text: str) -> tuple[DeclaredTool, ...]:
    """Raises BadSkill."""
    if len(text) > LARGEST:
        raise BadSkill(f"The file of the tools is larger than {LARGEST >> 10} KiB")
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise BadSkill("The file of the tools is no JSON") from None
    if not isinstance(found, list) or not 1 <= len(found) <= MOST_TOOLS:
        raise BadSkill(f"The file of the tools must be a list of 1 to {MOST_TOOLS} tools")
    tools = tuple(_tool(one, place) for place, one in enumerate(found, 1))
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise BadSkill("Two tools of the skill have the same name")
    return tools


def filled(template: str, arguments: Mapping[str, Any], quote: Any = str) -> str:
    """`{name}` replaced by the argument of that name; one that is not given is nothing."""
    return _PLACE.sub(lambda found: quote(_worded(arguments.get(found[1]))), template)


def places(template: str) -> frozenset[str]:
    """The arguments that a template names."""
    return frozenset(_PLACE.findall(template))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadSkill("An object in the file of the tools has a name twice")
    return found


def _tool(value: object, place: int) -> DeclaredTool:
    if not isinstance(value, dict):
        raise BadSkill(f"Tool {place} of the skill is no object")
    name = value.get("name")
    if not isinstance(name, str) or _TOOL_NAME.fullmatch(name) is None:
        raise BadSkill(
            f"Tool {place} of the skill cannot have the name {name!r:.80}",
            hint="Small letters, digits and underscores, at most 40",
        )
    kinds = [kind for kind in ("script", "http", "binary") if kind in value]
    if len(kinds) != 1:
        raise BadSkill(f"Tool {name!r} needs one of script, http, binary")
    for key in value:
        if key not in (*_COMMON, kinds[0]):
            raise BadSkill(
                f"Tool {name!r} has no use for {key!r:.80}", hint=suggestion(str(key), _COMMON)
            )
    return DeclaredTool(
        name=name,
        description=_needed_text(value, "description", name, 2000),
        parameters=_parameters(value.get("parameters"), name),
        backend=_backend(kinds[0], value[kinds[0]], name),
        timeout_s=_timeout(value.get("timeout_s", USUAL_TIMEOUT_S), name),
    )


def _backend(kind: str, value: object, tool: str) -> Backend:
    if not isinstance(value, dict):
        raise BadSkill(f"`{kind}` of tool {tool!r} is no object")
    if kind == "script":
        return _script(value, tool)
    if kind == "http":
        return _http(value, tool)
    return _binary(value, tool)


def _script(value: Mapping[str, Any], tool: str) -> Script:
    _refuse_others(value, ("path", "runs"), tool)
    runs = value.get("runs", "program")
    if runs not in ("python", "shell", "javascript", "program"):
        raise BadSkill(f"`runs` of tool {tool!r} is {runs!r:.80}")
    return Script(path=safe_path(value.get("path"), tool), runs=runs)


def _http(value: Mapping[str, Any], tool: str) -> Http:
    _refuse_others(value, ("method", "url", "headers"), tool)
    method = value.get("method", "GET")
    if method not in _METHODS:
        raise BadSkill(f"`method` of tool {tool!r} is {method!r:.80}")
    url = _needed_text(value, "url", tool, 4096)
    if not re.match(r"https?://[^/{}?#@\s]+(?:[/?]|$)", url):
        raise BadSkill(
            f"`url` of tool {tool!r} is {url[:80]!r}",
            hint="It begins with http:// or https:// and a host that no argument decides",
        )
    headers = value.get("headers", {})
    if not isinstance(headers, dict) or not all(
        isinstance(one, str) and "\n" not in one and "\r" not in one for one in headers.values()
    ):
        raise BadSkill(f"`headers` of tool {tool!r} is no table of texts")
    for name in headers:
        if _HEADER.fullmatch(name) is None:
            raise BadSkill(f"Tool {tool!r} cannot send a header {name!r:.80}")
    return Http(method=method, url=url, headers=headers)


def _binary(value: Mapping[str, Any], tool: str) -> Binary:
    _refuse_others(value, ("amd64", "arm64", "arguments"), tool)
    architectures: tuple[Architecture, ...] = ("amd64", "arm64")
    sources = {one: _source(value[one], tool) for one in architectures if one in value}
    if not sources:
        raise BadSkill(f"`binary` of tool {tool!r} names no file for amd64 or arm64")
    arguments = value.get("arguments", [])
    if not isinstance(arguments, list) or not all(
        isinstance(one, str) and "\0" not in one for one in arguments
    ):
        raise BadSkill(f"`arguments` of tool {tool!r} is no list of texts")
    return Binary(sources=sources, arguments=tuple(arguments))


def _source(value: object, tool: str) -> Source:
    if not isinstance(value, dict):
        raise BadSkill(f"`binary` of tool {tool!r} is no table of files")
    _refuse_others(value, ("path", "url", "sha256"), tool)
    digest = value.get("sha256")
    if not isinstance(digest, str) or _SHA256.fullmatch(digest) is None:
        raise BadSkill(f"The program of tool {tool!r} needs its sha256")
    if ("path" in value) == ("url" in value):
        raise BadSkill(f"The program of tool {tool!r} needs either a path or a url")
    if "path" in value:
        return Source(sha256=digest, path=safe_path(value["path"], tool))
    url = value["url"]
    if not isinstance(url, str) or not url.startswith(("https://", "http://")) or len(url) > 4096:
        raise BadSkill(f"`url` of the program of tool {tool!r} is {url!r:.80}")
    return Source(sha256=digest, url=url)


def safe_path(value: object, tool: str) -> str:
    """A path beneath the skill, as it is written."""
    if isinstance(value, str) and value and len(value) < 1024 and value.isprintable():
        parts = PurePosixPath(value).parts
        if parts and not value.startswith("/") and ".." not in parts and "\\" not in value:
            return str(PurePosixPath(value))
    raise BadSkill(f"Tool {tool!r} cannot use the path {value!r:.80}")


def _parameters(value: object, tool: str) -> Mapping[str, Any]:
    if value is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(value, dict) or value.get("type") != "object":
        raise BadSkill(f"`parameters` of tool {tool!r} must be a JSON Schema of an object")
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(value)
    except SchemaError as error:
        raise BadSkill(f"`parameters` of tool {tool!r}: {error.message[:200]}") from None
    except RecursionError:
        raise BadSkill(f"`parameters` of tool {tool!r} are nested too deeply") from None
    return value


def _timeout(value: object, tool: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadSkill(f"`timeout_s` of tool {tool!r} is no number")
    if not 0 < value <= LONGEST_TIMEOUT_S:
        raise BadSkill(f"`timeout_s` of tool {tool!r} is {value:g}, not 0 to {LONGEST_TIMEOUT_S:g}")
    return float(value)


def _needed_text(value: Mapping[str, Any], name: str, tool: str, most: int) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found.strip() or len(found) > most:
        raise BadSkill(f"Tool {tool!r} needs a {name!r} of at most {most} characters")
    return found.strip()


def _refuse_others(value: Mapping[str, Any], known: Sequence[str], tool: str) -> None:
    for key in value:
        if key not in known:
            raise BadSkill(
                f"Tool {tool!r} has no use for {key!r:.80}", hint=suggestion(str(key), known)
            )


def _worded(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
