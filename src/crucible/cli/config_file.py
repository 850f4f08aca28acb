"""A project's crucible.toml: what a sandbox for it should be. A key that means nothing is an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crucible.cli.grammar import suggestion
from crucible.errors import BadSetting, PathRefused

# section, key → the kind of its value and the field of the specification
_KEYS: Mapping[str, Mapping[str, tuple[type, str]]] = {
    "sandbox": {
        "name": (str, "name"),
        "image": (str, "image"),
        "base_image": (str, "image"),
    },
    "resources": {
        "vcpus": (int, "cpus"),
        "memory_mb": (int, "memory_mib"),
        "disk_mb": (int, "disk_mib"),
    },
    "security": {
        "network": (bool, "allow_network"),
    },
}
_KINDS = {str: "a text in quotes", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    name: str | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)


def read_config_file(path: str) -> ConfigFile:
    import tomllib

    try:
        with Path(path).open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise PathRefused(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path} is not TOML: {error}") from None
    fields: dict[str, Any] = {}
    for section, values in content.items():
        if section not in _KEYS or not isinstance(values, dict):
            raise BadSetting(f"{path} has no use for {section!r}", hint=suggestion(section, _KEYS))
        fields |= _section(path, section, values)
    name = fields.pop("name", None)
    return ConfigFile(name=name, spec=fields)


def _section(path: str, section: str, values: Mapping[str, object]) -> dict[str, Any]:
    known = _KEYS[section]
    fields: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise BadSetting(
                f"{path} has no use for {key!r} in [{section}]", hint=suggestion(key, known)
            )
        kind, target = known[key]
        if type(value) is not kind:
            raise BadSetting(
                f"{key!r} in [{section}] of {path} is {value!r}", hint=f"It must be {_KINDS[kind]}"
            )
        if target in fields:
            raise BadSetting(f"[{section}] of {path} says twice what the image is")
        fields[target] = value
    return fields
