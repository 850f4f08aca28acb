"""The logins a person already has: Docker's and podman's files, and the programs that keep secrets for them.

Read anew for each pull and never written. No secret appears in a repr, a message or a log.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crucible.errors import CredentialsUnreadable
from crucible.images.oci.credential_program import ask_program
from crucible.images.oci.reference import DEFAULT_REGISTRY

_MAX_FILE_BYTES = 4 << 20
# Docker keeps the login of its own registry under the address of the first version.
_DEFAULT_KEY = "https://index.docker.io/v1/"
_DEFAULT_NAMES = ("docker.io", "index.docker.io", "registry-1.docker.io")
_IDENTITY_USER = "<token>"

AskProgram = Callable[[str, str, Mapping[str, str]], tuple[str, str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Either a user with a password, or a token: to be exchanged (`identity_token`) or sent as it is."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of an Authorization header."""
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode('ascii')}"


def find_credentials(
    registry: str,
    repository: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    ask: AskProgram = ask_program,
) -> Credentials | None:
    """The login for a repository of a registry, if there is one. Raises CredentialsUnreadable."""
    values = os.environ if environment is None else environment
    for path in _files(values):
        document = _read(path)
        if document is None:
            continue
        found = _from_programs(document, registry, values, ask)
        found = found or _from_file(path, document, registry, repository)
        if found is not None:
            return found
    return None


def _files(values: Mapping[str, str]) -> Iterator[Path]:
    if explicit := values.get("REGISTRY_AUTH_FILE"):
        yield Path(explicit)
    home = values.get("HOME", "")
    if docker := values.get("DOCKER_CONFIG") or (home and f"{home}/.docker"):
        yield Path(docker) / "config.json"
    if runtime := values.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"
    if configuration := values.get("XDG_CONFIG_HOME") or (home and f"{home}/.config"):
        yield Path(configuration) / "containers" / "auth.json"


def _read(path: Path) -> Mapping[str, object] | None:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CredentialsUnreadable(f"{path} cannot be read: {error.strerror}") from None
    try:
        document = json.loads(data) if len(data) <= _MAX_FILE_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise CredentialsUnreadable(
            f"{path} is not what Docker or podman writes", hint="Log in again, or remove the file"
        )
    return document


def _from_programs(
    document: Mapping[str, object], registry: str, values: Mapping[str, str], ask: AskProgram
) -> Credentials | None:
    """A program named for this registry goes before the one for all of them."""
    named = _mapping(document, "credHelpers")
    keys = _DEFAULT_NAMES if registry == DEFAULT_REGISTRY else (registry,)
    for key in keys:
        if isinstance(program := named.get(key), str) and program:
            return _said(ask(program, key, values))
    program = document.get("credsStore")
    if not isinstance(program, str) or not program:
        return None
    asked = (_DEFAULT_KEY,) if registry == DEFAULT_REGISTRY else (registry, f"https://{registry}")
    for key in asked:
        if (found := _said(ask(program, key, values))) is not None:
            return found
    return None


def _said(answer: tuple[str, str] | None) -> Credentials | None:
    if answer is None:
        return None
    username, secret = answer
    if username == _IDENTITY_USER:
        return Credentials(identity_token=secret)
    return Credentials(username=username, password=secret)


def _from_file(
    path: Path, document: Mapping[str, object], registry: str, repository: str
) -> Credentials | None:
    """podman also keeps logins for parts of a registry: the longest path that fits decides."""
    entries = {_normal(key): value for key, value in _mapping(document, "auths").items()}
    for key in _keys(registry, repository):
        entry = entries.get(key)
        if isinstance(entry, dict):
            found = _entry(path, key, entry)
            if found is not None:
                return found
    return None


def _keys(registry: str, repository: str) -> Iterator[str]:
    names = _DEFAULT_NAMES if registry == DEFAULT_REGISTRY else (registry,)
    parts = repository.split("/") if repository else []
    for length in range(len(parts), -1, -1):
        for name in names:
            yield "/".join((name, *parts[:length]))


def _entry(path: Path, key: str, entry: Mapping[str, object]) -> Credentials | None:
    def text(name: str) -> str:
        value = entry.get(name)
        return value if isinstance(value, str) else ""

    username, password = text("username"), text("password")
    if packed := text("auth"):
        try:
            plain = base64.b64decode(packed, validate=True).decode()
        except (binascii.Error, ValueError):
            raise CredentialsUnreadable(
                f"The login for {key} in {path} is damaged", hint=f"Log in to {key} again"
            ) from None
        username, _, password = plain.rstrip("\0").partition(":")
    if username == _IDENTITY_USER:
        return Credentials(identity_token=password)
    identity, registry_token = text("identitytoken"), text("registrytoken")
    if not (username or identity or registry_token):
        return None  # an empty entry is how Docker marks that a program has the secret
    return Credentials(
        username=username,
        password=password,
        identity_token=identity,
        registry_token=registry_token,
    )


def _normal(key: str) -> str:
    """`https://host/v1/` and `host` are the same place."""
    bare = key.lower().removeprefix("https://").removeprefix("http://").rstrip("/")
    for version in ("/v1", "/v2"):
        bare = bare.removesuffix(version)
    return bare


def _mapping(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}
