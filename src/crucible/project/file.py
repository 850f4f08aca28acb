"""Reads a crucible.toml. A key that means nothing is an error, with what was probably meant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from crucible.errors import BadSetting, PathRefused, suggestion
from crucible.project.schema import MOUNTS, SECTIONS, TIME, Key, find_key, names_in
from crucible.sandbox.spec import parse_duration_s

FILE_NAME = "crucible.toml"
SECRETS = "secrets"
# They decide where images come from, for every project.
_OF_THE_USER = ("registries", "images")
# They name a program of this host to run.
_KEYS_OF_THE_USER = (("provider", "transport"), ("provider", "backend_cli"))
_OWN_FILE = "It is for no project to say: write it into ~/.config/crucible/config.toml"
_MAX_BYTES = 1 << 20
_MOUNT_HINT = 'Write "/data" = "./data" or "/data" = { source = "./data", writable = true }'


class Set(NamedTuple):
    """A value and the key that set it, such as `[resources] vcpus`."""

    value: Any
    key: str


def read_file(path: str) -> dict[str, Set]:
    """What the file sets, by the field of the specification."""
    fields: dict[str, Set] = {}
    for section, values in _load(path).items():
        if section not in (*SECTIONS, SECRETS) or not isinstance(values, dict):
            hint = suggestion(section, (*SECTIONS, SECRETS))
            if section in _OF_THE_USER:
                hint = _OWN_FILE
            raise BadSetting(f"{path} has no use for {section!r}", hint=hint)
        if section == SECRETS:
            fields["secrets"] = Set(_secrets(path, values), f"[{SECRETS}]")
            continue
        if section == MOUNTS:
            fields["mounts"] = Set(_mounts(path, values), f"[{MOUNTS}]")
            continue
        for name, value in values.items():
            _take(path, section, name, value, fields)
    return fields


def _secrets(path: str, values: Mapping[str, Any]) -> list[str]:
    """`NAME = "host[:header]"`: the value is that of the variable NAME where the sandbox is started."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise BadSetting(
                f"{name!r} in [{SECRETS}] of {path} is {_shown(value)}",
                hint='Write the host it is for: NAME = "api.example.org"',
            )
    return [f"{name}:{value}" for name, value in values.items()]


def _take(path: str, section: str, name: str, value: Any, fields: dict[str, Set]) -> None:
    key = find_key(section, name)
    if key is None and (section, name) in _KEYS_OF_THE_USER:
        raise BadSetting(f"{path} has no use for {name!r} in [{section}]", hint=_OWN_FILE)
    if key is None:
        raise BadSetting(
            f"{path} has no use for {name!r} in [{section}]",
            hint=suggestion(name, names_in(section)),
        )
    shown = f"[{section}] {name}"
    found = _checked(path, key, value)
    if key.target == "network" and isinstance(found, bool):
        if found:
            return  # what can be reached is then for the profile to say
        found = "off"
    if key.target == "fallback":
        found = "remote" if found else "never"
    if key.target == "pass_env" and isinstance(found, bool):
        found = ["*"] if found else []
    if key.target in fields:
        other = fields[key.target].key
        raise BadSetting(f"{path} says the same thing twice: {other} and {shown}")
    fields[key.target] = Set(found, shown)


def _mounts(path: str, values: Mapping[str, Any]) -> list[str]:
    """Target by target. A source is looked for from where the file lies."""
    from crucible.sandbox.mounts import Mount, check_mounts, check_target, parse_volume, resolved

    found = []
    for target, value in values.items():
        where = f"{target!r} in [{MOUNTS}] of {path}"
        if isinstance(value, dict) and value.keys() == {"volume"}:
            found.append(str(parse_volume(f"{value['volume']}:{target}")))
            continue
        given = {"source": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or not isinstance(given.get("source"), str):
            raise BadSetting(f"{where} is {_shown(value)}", hint=_MOUNT_HINT)
        if unknown := given.keys() - {"source", "writable"}:
            hint = suggestion(min(unknown), ("source", "writable", "volume"))
            raise BadSetting(f"{where} has no use for {min(unknown)!r}", hint=hint)
        is_writable = given.get("writable", False)
        if not isinstance(is_writable, bool) or not given["source"] or "\0" in given["source"]:
            raise BadSetting(f"{where} is {_shown(value)}", hint=_MOUNT_HINT)
        mount = Mount(given["source"], check_target(target), "rw" if is_writable else "ro")
        found.append(str(resolved(mount, os.path.dirname(path))))  # noqa: PTH120
    check_mounts(found)
    return found


def _checked(path: str, key: Key, value: Any) -> Any:
    where = f"{key.name!r} in [{key.section}] of {path}"
    is_flag_for_number = isinstance(value, bool) and bool not in key.kind.types
    if not isinstance(value, key.kind.types) or is_flag_for_number or not _is_text(value):
        raise BadSetting(f"{where} is {_shown(value)}", hint=f"It must be {key.kind.said}")
    if key.choices and value not in key.choices:
        raise BadSetting(f"{where} is {_shown(value)}", hint=f"Use one of {', '.join(key.choices)}")
    return (parse_duration_s(str(value)) or 0.0) if key.kind is TIME else value


def _is_text(value: Any) -> bool:
    """Whether what a list or a table holds is text and nothing else."""
    match value:
        case list():
            return all(isinstance(item, str) for item in value)
        case dict():
            return all(isinstance(item, str) for item in value.values())
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _load(path: str) -> Mapping[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the path may hold bytes that pathlib refuses
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise PathRefused(f"{path} cannot be read: {why}") from None
    if len(data) > _MAX_BYTES:
        raise BadSetting(f"{path} is larger than {_MAX_BYTES >> 20} MiB")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadSetting(f"{path} is not TOML: {error}") from None
