"""A project's devcontainer.json: the few keys that mean something here; every other one is named as ignored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crucible.errors import BadSetting

_MAX_BYTES = 1 << 20
_MAX_ITEMS = 256
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_NAMES_ONLY = ("name", "$schema")
_BUILD_KEYS = ("dockerfile", "context", "target", "args")
# How older files write a build: beside it, not in it.
_OLD_BUILD = {"dockerFile": "dockerfile", "context": "context"}
_COMPUTED = "it has variables of the editor in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """An image to be built from a Dockerfile of the project; paths are relative to the file's directory."""

    dockerfile: str
    context: str = "."
    target: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DevContainer:
    """`after_create` are the words of a command, or a script for the shell as its only word."""

    path: str
    image: str = ""
    build: Build | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    after_create: tuple[str, ...] = ()
    user: str = ""
    ignored: tuple[str, ...] = ()


def find_devcontainer(directory: Path) -> Path | None:
    """The file, where the specification says it may lie. Several in folders of their own are nobody's choice."""
    for name in (".devcontainer/devcontainer.json", ".devcontainer.json"):
        if (directory / name).is_file():
            return directory / name
    found = sorted((directory / ".devcontainer").glob("*/devcontainer.json"))
    return found[0] if len(found) == 1 else None


def read_devcontainer(path: Path) -> DevContainer:
    """Raises BadSetting for what is no devcontainer.json, or has a value of the wrong kind."""
    content = _with_build(_load(path))
    ignored = []
    fields: dict[str, Any] = {}
    for key, value in content.items():
        reader = _READERS.get(key)
        if key == "build":
            fields["build"], unused = _build(path, key, value)
            ignored += unused
        elif reader is None:
            if key not in _NAMES_ONLY:
                ignored.append(key)
        elif _is_computed(value):
            ignored.append(f"{key} ({_COMPUTED})")
        else:
            target, read = reader
            fields[target] = read(path, key, value)
    return DevContainer(path=str(path), ignored=tuple(ignored), **fields)


def plain_json(text: str) -> str:
    """JSON with comments and trailing commas → JSON."""
    return _TOKEN.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise BadSetting(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise BadSetting(f"{path} is larger than {_MAX_BYTES >> 20} MiB")
    try:
        # Commas are trailing only once the comments are gone.
        content = json.loads(plain_json(plain_json(data.decode("utf-8-sig"))))
    except (ValueError, RecursionError) as error:
        raise BadSetting(f"{path} is not JSON with comments: {error}") from None
    if not isinstance(content, dict):
        raise BadSetting(f"{path} is not a JSON object")
    return content


def _with_build(content: dict[str, Any]) -> dict[str, Any]:
    """What an older file says beside a build, moved into it."""
    if "build" in content or "dockerFile" not in content:
        return content
    moved = {new: content[old] for old, new in _OLD_BUILD.items() if old in content}
    return {**{k: v for k, v in content.items() if k not in _OLD_BUILD}, "build": moved}


def _is_computed(value: object) -> bool:
    match value:
        case str():
            return "${" in value
        case list():
            return any(_is_computed(item) for item in value)
        case dict():
            return any(_is_computed(item) for item in value.values())
    return False


def _text(path: Path, key: str, value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise BadSetting(f"{key!r} in {path} is {value!r}", hint="It must be a text")
    return value


def _texts(path: Path, key: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > _MAX_ITEMS:
        raise BadSetting(f"{key!r} in {path} is not an object of texts")
    return {
        _text(path, key, name): "" if item == "" else _text(path, f"{key}.{name}", item)
        for name, item in value.items()
        if item is not None
    }


def _build(path: Path, key: str, value: object) -> tuple[Build | None, list[str]]:
    """The build, and what of it is not used. An argument that only an editor can tell is left to its default."""
    if not isinstance(value, dict) or "dockerfile" not in value:
        raise BadSetting(f"{key!r} in {path} names no dockerfile")
    if any(_is_computed(value.get(name)) for name in ("dockerfile", "context", "target")):
        return None, [f"{key} ({_COMPUTED})"]
    arguments = _texts(path, "build.args", value.get("args", {}))
    computed = [name for name, text in arguments.items() if _is_computed(text)]
    unused = [f"{key}.{name}" for name in value if name not in _BUILD_KEYS]
    unused += [f"{key}.args.{name} ({_COMPUTED})" for name in computed]
    build = Build(
        dockerfile=_text(path, "build.dockerfile", value["dockerfile"]),
        context=_text(path, "build.context", value.get("context", ".")),
        target=_text(path, "build.target", value["target"]) if "target" in value else "",
        arguments={name: text for name, text in arguments.items() if name not in computed},
    )
    return build, unused


def _ports(path: Path, key: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > _MAX_ITEMS:
        raise BadSetting(f"{key!r} in {path} is not a list of ports")
    return tuple(_port(path, key, item) for item in value)


def _port(path: Path, key: str, value: object) -> int:
    text = value.removeprefix("localhost:") if isinstance(value, str) else value
    if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= 5:
        text = int(text)
    if isinstance(text, bool) or not isinstance(text, int) or not 1 <= text <= 65535:
        raise BadSetting(f"{value!r} in {key!r} of {path} is not a port", hint="Use 1 to 65535")
    return text


def _command(path: Path, key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list) and value and len(value) <= _MAX_ITEMS:
        return tuple(_text(path, key, item) for item in value)
    if isinstance(value, dict):
        raise BadSetting(
            f"{key!r} in {path} has several commands", hint="Join them with && in one text"
        )
    return (_text(path, key, value),)


_READERS = {
    "image": ("image", _text),
    "containerEnv": ("environment", _texts),
    "forwardPorts": ("ports", _ports),
    "postCreateCommand": ("after_create", _command),
    "remoteUser": ("user", _text),
}
