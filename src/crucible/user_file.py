"""The user's own file of settings, for what no project may decide: which registries are asked, where sandboxes run.

It is never looked for near a project. A variable of the same meaning goes before it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crucible.errors import BadSetting, suggestion
from crucible.values import dataclass

_MAX_BYTES = 1 << 20
_WRITABLE_BY_OTHERS = 0o022


# Each kind of value that TOML gives, as an error asks for it.
_SAID = {
    list: "a list of texts",
    str: "a text in quotes",
    int: "a whole number",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    kind: type
    variable: str


KEYS = {
    "registries": {
        "mirrors": Key(kind=list, variable="CRUCIBLE_REGISTRY_MIRRORS"),
        "insecure": Key(kind=list, variable="CRUCIBLE_INSECURE_REGISTRIES"),
        "certs": Key(kind=str, variable="CRUCIBLE_REGISTRY_CERTS"),
    },
    "images": {
        "limit_mb": Key(kind=int, variable="CRUCIBLE_IMAGE_LIMIT_MIB"),
    },
    "database": {
        "url": Key(kind=str, variable="CRUCIBLE_DATABASE"),
        "sessions": Key(kind=str, variable="CRUCIBLE_SESSION_STORE"),
    },
    "chat": {
        "upload_mib": Key(kind=int, variable="CRUCIBLE_UPLOAD_MIB"),
        "uploads_mib": Key(kind=int, variable="CRUCIBLE_UPLOADS_MIB"),
        "turns_per_minute": Key(kind=int, variable="CRUCIBLE_TURNS_PER_MINUTE"),
    },
    "prices": {
        "models": Key(kind=list, variable="CRUCIBLE_PRICES"),
    },
    "server": {
        "tls_cert": Key(kind=str, variable="CRUCIBLE_TLS_CERT"),
        "tls_key": Key(kind=str, variable="CRUCIBLE_TLS_KEY"),
        "e2b_domain": Key(kind=str, variable="CRUCIBLE_E2B_DOMAIN"),
        "e2b_public": Key(kind=bool, variable="CRUCIBLE_E2B_PUBLIC"),
        "public_url": Key(kind=str, variable="CRUCIBLE_PUBLIC_URL"),
        "accounts": Key(kind=bool, variable="CRUCIBLE_ACCOUNTS"),
        "signup": Key(kind=str, variable="CRUCIBLE_SIGNUP"),
        "oidc_issuer": Key(kind=str, variable="CRUCIBLE_OIDC_ISSUER"),
        "oidc_client_id": Key(kind=str, variable="CRUCIBLE_OIDC_CLIENT_ID"),
        "oidc_client_secret": Key(kind=str, variable="CRUCIBLE_OIDC_CLIENT_SECRET"),
        "oidc_label": Key(kind=str, variable="CRUCIBLE_OIDC_LABEL"),
    },
    "models": {
        "provider": Key(kind=str, variable="LLM_PROVIDER"),
        "model": Key(kind=str, variable="LLM_MODEL"),
        "agent": Key(kind=str, variable="LLM_AGENT_MODEL"),
        "chat": Key(kind=str, variable="LLM_CHAT_MODEL"),
        "memory": Key(kind=str, variable="LLM_MEMORY_MODEL"),
        "fallback": Key(kind=list, variable="LLM_FALLBACK"),
    },
    "provider": {
        "mode": Key(kind=str, variable="SANDBOX_PROVIDER"),
        "fallback_to_remote": Key(kind=bool, variable="LOCAL_MICROVM_FALLBACK_TO_REMOTE"),
        "transport": Key(kind=str, variable="LOCAL_MICROVM_TRANSPORT"),
        "backend_cli": Key(kind=str, variable="LOCAL_MICROVM_BACKEND_CLI"),
        "ssh_host": Key(kind=str, variable="LOCAL_MICROVM_SSH_HOST"),
        "ssh_user": Key(kind=str, variable="LOCAL_MICROVM_SSH_USER"),
        "ssh_port": Key(kind=int, variable="LOCAL_MICROVM_SSH_PORT"),
        "ssh_identity": Key(kind=str, variable="LOCAL_MICROVM_SSH_IDENTITY"),
        "ssh_known_hosts": Key(kind=str, variable="LOCAL_MICROVM_SSH_KNOWN_HOSTS"),
    },
}

# Tables within a section, which whoever reads them checks: what they are called is up to the user.
TABLES = {"models": ("providers", "named")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value as the variable would have it, and where it comes from."""

    text: str
    origin: str


def gather(environment: Mapping[str, str], *, only: str = "") -> dict[str, Given]:
    """What is set, by the name of the variable: by the variable itself, else by the file.

    With `only`, a file that does not name that section is not even parsed: this is on the path of `run`.
    """
    found = _read(user_file(environment), only)
    for keys in KEYS.values():
        for key in keys.values():
            if text := environment.get(key.variable):
                found[key.variable] = Given(text=text, origin=key.variable)
    return found


def tables(environment: Mapping[str, str], section: str) -> dict[str, dict[str, Any]]:
    """The tables of a section, as they are in the file."""
    values = _load(user_file(environment), section).get(section, {})
    found = {name: values[name] for name in TABLES[section] if name in values}
    for name, table in found.items():
        if not isinstance(table, dict):
            raise BadSetting(f"[{section}] {name} is no table", hint=f"Write [{section}.{name}.…]")
    return found


def user_file(environment: Mapping[str, str]) -> Path | None:
    """Where it would be. A path that is not absolute would depend on where one happens to stand."""
    if named := environment.get("CRUCIBLE_CONFIG"):
        if not Path(named).is_absolute():
            raise BadSetting(f"CRUCIBLE_CONFIG is {named!r}", hint="It must be an absolute path")
        return Path(named)
    home = environment.get("HOME")
    directory = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    return Path(directory) / "crucible" / "config.toml" if Path(directory).is_absolute() else None


def _read(path: Path | None, only: str) -> dict[str, Given]:
    found: dict[str, Given] = {}
    for section, values in _load(path, only).items():
        keys = KEYS.get(section)
        if keys is None or not isinstance(values, dict):
            raise BadSetting(f"{path} has no use for {section!r}", hint=suggestion(section, KEYS))
        for name, value in values.items():
            if name in TABLES.get(section, ()):
                continue
            key = keys.get(name)
            where = f"[{section}] {name} of {path}"
            if key is None:
                raise BadSetting(
                    f"{path} has no use for {name!r} in [{section}]", hint=suggestion(name, keys)
                )
            found[key.variable] = Given(text=_text(key, value, where), origin=where)
    return found


def _text(key: Key, value: object, where: str) -> str:
    if isinstance(value, list) and key.kind is list:
        # A comma would be seen as more than one entry.
        if all(isinstance(item, str) and "," not in item for item in value):
            return ",".join(value)
    elif type(value) is bool and key.kind is bool:
        return "true" if value else "false"
    elif type(value) is key.kind and value != "":
        return str(value)
    raise BadSetting(f"{where} is {repr(value)[:80]}", hint=f"It must be {_SAID[key.kind]}")


def _load(path: Path | None, only: str) -> dict[str, Any]:
    if path is None:
        return {}
    data = _read_own(path)
    return {} if only.encode() not in data else _parse(path, data)


def read_own_toml(path: Path) -> dict[str, Any]:
    """Another file of the user's own, under the same rules; empty if it is not there. Raises BadSetting."""
    return _parse(path, _read_own(path))


def _read_own(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            _refuse_foreign(path, os.fstat(file.fileno()))
            data = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise BadSetting(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise BadSetting(f"{path} is larger than {_MAX_BYTES >> 20} MiB")
    return data


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    if not data:
        return {}
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise BadSetting(f"{path} is not TOML: {error}") from None


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    """Who can write it decides where images come from, and where sandboxes run."""
    if not stat.S_ISREG(found.st_mode):
        return
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & _WRITABLE_BY_OTHERS:
        raise BadSetting(
            f"{path} can be changed by others", hint=f"It must be yours alone: chmod go-w {path}"
        )
