"""What `@registries` stands for here: the package indexes that this host's own clients are set up to use.

No name of an index is written in Crucible. Files and variables are read as the clients read them; for what a client has
built in, the client itself is asked. A password in an address is dropped at once.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

MAX_FILE: Final = 1 << 20
CLIENT_S: Final = 30.0

Client = Literal["pip", "npm", "apt", "cargo", "go"]

_URL: Final = re.compile(r"https?://[^\s\"',|)\]]+")
_PIP_FILES: Final = (
    "/etc/xdg/pip/pip.conf",
    "/etc/pip.conf",
    "~/.pip/pip.conf",
    "~/.config/pip/pip.conf",
)
_PIP_KEYS: Final = ("index-url", "extra-index-url", "find-links")
_UV_FILES: Final = ("/etc/uv/uv.toml", "~/.config/uv/uv.toml")
_NPM_FILES: Final = ("/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc", "~/.npmrc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One index of one client, as an address without credentials."""

    client: Client
    url: str


class Host:
    """What is read of this host: its variables, its files beneath `root`, and the answers of its programs."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        root: Path = Path("/"),
        ask: Callable[[list[str]], str] | None = None,
    ) -> None:
        self.environment = dict(os.environ) if environment is None else dict(environment)
        self._root = root
        self._ask = ask or self._run
        self.read: dict[str, str] = {}

    def setting(self, name: str) -> str:
        """A variable, in capitals or not."""
        value = self.environment.get(name) or self.environment.get(name.lower()) or ""
        self.read[f"${name}"] = value
        return value

    def text(self, path: str) -> str:
        """A file, or "" if it is not there or cannot be read."""
        home = self.environment.get("HOME", "")
        if path.startswith("~/") and not home:
            return ""
        place = self._root / (home + path[1:] if path.startswith("~/") else path).lstrip("/")
        try:
            if place.stat().st_size > MAX_FILE:
                return ""
            found = place.read_text(encoding="utf-8", errors="replace")
        except OSError:
            found = ""
        self.read[path] = found
        return found

    def names(self, folder: str) -> list[str]:
        home = self.environment.get("HOME", "")
        place = self._root / (home + folder[1:] if folder.startswith("~/") else folder).lstrip("/")
        try:
            found = sorted(entry.name for entry in place.iterdir())
        except OSError:
            found = []
        self.read[folder] = " ".join(found)
        return found

    def asked(self, *argv: str) -> str:
        """What a client says about itself; "" if it is not there."""
        return self._ask(list(argv))

    def _run(self, argv: list[str]) -> str:
        try:
            done = subprocess.run(
                argv,
                env={**self.environment, "COLUMNS": "1000"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CLIENT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.decode("utf-8", errors="replace") if done.returncode == 0 else ""


def configured(host: Host) -> tuple[Source, ...]:
    """From variables and files alone; quick."""
    readers: tuple[tuple[Client, Callable[[Host], Iterator[str]]], ...] = (
        ("pip", _pip),
        ("npm", _npm),
        ("apt", _apt),
        ("cargo", _cargo),
        ("go", _go),
    )
    found = [
        Source(client=client, url=url)
        for client, reader in readers
        for text in reader(host)
        for url in _addresses(text)
    ]
    return tuple(dict.fromkeys(found))


def built_in(host: Host, known: tuple[Source, ...]) -> tuple[Source, ...]:
    """What clients use although nobody told them; asks each that has no setting of its own. Slow."""
    found: list[Source] = []
    if not any(source.client == "pip" for source in known) or _lacks_index(host):
        text = host.asked("python3", "-m", "pip", "install", "--help")
        if match := re.search(r"--index-url <url>[^(]*\(default ([^)\s]+)\)", text):
            found += [Source(client="pip", url=url) for url in _addresses(match[1])]
    text = host.asked("npm", "config", "get", "registry")
    found += [Source(client="npm", url=url) for url in _addresses(text)]
    text = host.asked("go", "env", "GOPROXY", "GOSUMDB")
    found += [Source(client="go", url=url) for url in _go_addresses(text)]
    return tuple(dict.fromkeys(found))


def _lacks_index(host: Host) -> bool:
    """Whether pip's own index is still its first."""
    if host.setting("PIP_INDEX_URL") or host.setting("PIP_NO_INDEX"):
        return False
    return not any(re.search(r"(?m)^\s*index-url\s*[=:]", host.text(path)) for path in _PIP_FILES)


def _pip(host: Host) -> Iterator[str]:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        yield host.setting(name)
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX"):
        yield host.setting(name)
    named = [host.setting("PIP_CONFIG_FILE")] if host.setting("PIP_CONFIG_FILE") else []
    if prefix := host.setting("VIRTUAL_ENV"):
        named.append(f"{prefix}/pip.conf")
    for path in (*_PIP_FILES, *named):
        yield from _ini(host.text(path), _PIP_KEYS)
    for path in _UV_FILES:
        table = _toml(host.text(path))
        pip = table.get("pip")
        for part in (table, pip if isinstance(pip, dict) else {}):
            yield str(part.get("index-url", ""))
            yield json.dumps(part.get("extra-index-url", []))
            yield json.dumps(part.get("index", []))


def _npm(host: Host) -> Iterator[str]:
    yield host.setting("NPM_CONFIG_REGISTRY")
    named = [host.setting("NPM_CONFIG_USERCONFIG")] if host.setting("NPM_CONFIG_USERCONFIG") else []
    for path in (*_NPM_FILES, *named):
        for line in host.text(path).splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "registry" or key.strip().endswith(":registry"):
                yield value


def _apt(host: Host) -> Iterator[str]:
    folder = "/etc/apt/sources.list.d"
    lists = [f"{folder}/{name}" for name in host.names(folder) if name.endswith(".list")]
    for path in ("/etc/apt/sources.list", *lists):
        for line in host.text(path).splitlines():
            if line.strip().startswith(("deb ", "deb-src ", "deb\t", "deb [")):
                yield line
    for name in host.names(folder):
        if not name.endswith(".sources"):
            continue
        for stanza in re.split(r"\n\s*\n", host.text(f"{folder}/{name}")):
            if not re.search(r"(?im)^enabled:\s*no\b", stanza):
                yield from re.findall(r"(?im)^uris:((?:.*)(?:\n[ \t]+.*)*)", stanza)


def _cargo(host: Host) -> Iterator[str]:
    home = host.setting("CARGO_HOME") or "~/.cargo"
    for name in sorted(host.environment):
        if re.fullmatch(r"CARGO_REGISTRIES_\w+_INDEX", name):
            yield host.setting(name)
    for file in ("config.toml", "config"):
        table = _toml(host.text(f"{home}/{file}"))
        for part in ("registries", "source"):
            yield json.dumps(table.get(part, {}))
    # What is built into cargo shows in the names of what it has fetched: the host, a dash and a hash.
    for name in host.names(f"{home}/registry/index"):
        if match := re.fullmatch(r"([a-z0-9.-]+\.[a-z]+)-[0-9a-f]{16}", name):
            yield f"https://{match[1]}/"


def _go(host: Host) -> Iterator[str]:
    for name in ("GOPROXY", "GOSUMDB"):
        yield from _go_addresses(host.setting(name))
    for line in host.text("~/.config/go/env").splitlines():
        key, _, value = line.partition("=")
        if key in ("GOPROXY", "GOSUMDB"):
            yield from _go_addresses(value)


def _go_addresses(text: str) -> Iterator[str]:
    """Addresses, and the bare name by which a database of checksums is called."""
    yield from _addresses(text)
    for line in text.splitlines():
        if re.fullmatch(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", name := line.strip().partition("+")[0]):
            yield f"https://{name}/"


def _ini(text: str, keys: tuple[str, ...]) -> Iterator[str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in parser.sections():
        for key in keys:
            yield parser.get(section, key, fallback="")


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _addresses(text: str) -> Iterator[str]:
    for written in _URL.findall(text):
        try:
            parts = urlsplit(written)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            continue
        if parts.hostname:
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            yield urlunsplit((parts.scheme, host + port, parts.path or "/", "", ""))
