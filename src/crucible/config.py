"""Where Crucible keeps its state and what the environment sets: read once, then frozen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from crucible.client.place import home_directory
from crucible.errors import BadSetting
from crucible.user_file import Given, gather
from crucible.values import dataclass

Provider = Literal["auto", "local_microvm", "remote_e2b"]
Transport = Literal["local", "ssh"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
_LONGEST_CLI = 4096
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """How ssh reaches a worker; what is empty is left to the user's own ssh configuration."""

    host: str
    user: str = ""
    port: int = 0
    identity: str = ""
    known_hosts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """`home` is the one state directory; everything Crucible writes lies beneath it.

    `falls_back` is whether a sandbox may go to the remote provider when no machine of ours works. Unless it is set,
    that is so only for who asked for `auto`: nothing leaves this machine because of a key that happens to be there.
    `backend_cli` are the words of the provider command with which a worker elsewhere is reached; `ssh` names one
    that is reached by ssh, and is checked where it is used.
    """

    home: Path
    template_limit_mib: int = 8192
    owner_idle_s: float = 30.0
    drain_s: float = 10.0
    pool_min: int = 2
    pool_max: int = 8
    runs_max: int = 128
    queue_max: int = 256
    queue_s: float = 60.0
    pulls_images: bool = True
    provider: Provider = "auto"
    falls_back: bool = False
    transport: Transport = "local"
    backend_cli: tuple[str, ...] = ()
    ssh: Ssh | None = None


def load_config(environment: dict[str, str] | None = None) -> Config:
    values = dict(os.environ) if environment is None else environment
    given = gather(values, only="provider")
    provider = given.get("SANDBOX_PROVIDER")
    backend_cli = _words(given.get("LOCAL_MICROVM_BACKEND_CLI"))
    ssh = _ssh(given)
    return Config(
        home=_home(values),
        template_limit_mib=_number(values, "CRUCIBLE_TEMPLATE_LIMIT_MIB", 8192),
        owner_idle_s=float(_number(values, "CRUCIBLE_OWNER_IDLE_S", 30)),
        drain_s=float(_number(values, "CRUCIBLE_DRAIN_S", 10)),
        pool_min=_number(values, "CRUCIBLE_POOL_MIN", 2),
        pool_max=_number(values, "CRUCIBLE_POOL_MAX", 8),
        runs_max=_number(values, "CRUCIBLE_RUNS_MAX", 128),
        queue_max=_number(values, "CRUCIBLE_QUEUE_MAX", 256),
        queue_s=float(_number(values, "CRUCIBLE_QUEUE_S", 60)),
        pulls_images=_pulls_images(values),
        provider="auto" if provider is None else parse_provider(provider.text, provider.origin),
        falls_back=_falls_back(given.get("LOCAL_MICROVM_FALLBACK_TO_REMOTE"), provider),
        transport=_transport(given.get("LOCAL_MICROVM_TRANSPORT"), backend_cli, ssh),
        backend_cli=backend_cli,
        ssh=ssh,
    )


def parse_provider(text: str, origin: str) -> Provider:
    for known in PROVIDERS:
        if text == known:
            return known
    raise BadSetting(f"{origin} is {text[:80]!r}", hint=f"Use one of {', '.join(PROVIDERS)}")


def parse_flag(text: str, origin: str) -> bool:
    """True and false as people write them into variables."""
    found = _FLAGS.get(text.strip().lower())
    if found is None:
        raise BadSetting(f"{origin} is {text[:80]!r}", hint="It must be true or false")
    return found


def _falls_back(given: Given | None, provider: Given | None) -> bool:
    if given is None:
        return provider is not None and provider.text == "auto"
    return parse_flag(given.text, given.origin)


def _transport(given: Given | None, backend_cli: tuple[str, ...], ssh: Ssh | None) -> Transport:
    if given is None or given.text == "local":
        return "local"
    if given.text != "ssh":
        raise BadSetting(
            f"{given.origin} is {given.text[:80]!r}", hint=f"Use one of {', '.join(TRANSPORTS)}"
        )
    if backend_cli and ssh is not None:
        raise BadSetting(
            "LOCAL_MICROVM_BACKEND_CLI and LOCAL_MICROVM_SSH_HOST are both set",
            hint="Each of them says how the worker is reached: set one",
        )
    if not backend_cli and ssh is None:
        raise BadSetting(
            f"{given.origin} is 'ssh', but LOCAL_MICROVM_SSH_HOST and LOCAL_MICROVM_BACKEND_CLI are not set",
            hint="Set LOCAL_MICROVM_SSH_HOST to the worker, or the other to the command that reaches it",
        )
    return "ssh"


def _ssh(given: Mapping[str, Given]) -> Ssh | None:
    host = given.get("LOCAL_MICROVM_SSH_HOST")
    if host is None:
        return None
    texts = {
        name: found.text if (found := given.get(f"LOCAL_MICROVM_SSH_{name.upper()}")) else ""
        for name in ("user", "port", "identity", "known_hosts")
    }
    port = _number({"LOCAL_MICROVM_SSH_PORT": texts.pop("port")}, "LOCAL_MICROVM_SSH_PORT", 0)
    return Ssh(host=host.text, port=port, **texts)


def _words(given: Given | None) -> tuple[str, ...]:
    """As a shell would split them; no shell ever sees them."""
    if given is None:
        return ()
    import shlex

    text = given.text
    if len(text) > _LONGEST_CLI or not text.isprintable():
        raise BadSetting(f"{given.origin} is no command: it is too long, or has control characters")
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadSetting(f"{given.origin} is {text[:80]!r}: {error}") from None
    if not words or not words[0]:
        raise BadSetting(f"{given.origin} is {text[:80]!r}", hint="It must be a command")
    return words


def _home(values: dict[str, str]) -> Path:
    found = home_directory(values)
    if not found:
        raise BadSetting("Neither CRUCIBLE_HOME nor HOME is set", hint="Set CRUCIBLE_HOME")
    return Path(found).absolute()


def _pulls_images(values: dict[str, str]) -> bool:
    text = values.get("CRUCIBLE_PULL") or "missing"
    if text not in ("missing", "never"):
        raise BadSetting(f"CRUCIBLE_PULL is {text!r}", hint="It must be missing or never")
    return text == "missing"


def _number(values: dict[str, str], name: str, default: int) -> int:
    text = values.get(name)
    if not text:
        return default
    if not text.isdecimal():
        raise BadSetting(f"{name} is {text!r}", hint="It must be a whole number")
    return int(text)
