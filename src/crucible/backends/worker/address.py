"""Where a worker is and which words reach it. What a user chose is never read as an option, nor by a shell as code."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from crucible.errors import BadSetting
from crucible.values import dataclass

CONTROL_PREFIX: Final = "ssh-"
PERSIST_S: Final = 60

# What the kernel takes for a socket's path, less the ending that ssh gives a socket while it makes it.
_LONGEST_CONTROL: Final = 108 - 1 - 18
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:%-]{0,253}\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@\\-]{0,63}\Z")

# Host keys are checked, and one that is not known is no reason to trust it. Nothing of ours is at the worker's
# disposal: no agent, no display, no forwarded port. A dead network is noticed after 45 s.
_CAUTION: Final = (
    "BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=20", "ServerAliveInterval=15",
    "ServerAliveCountMax=3", "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes",
    "PermitLocalCommand=no", "RequestTTY=no", "EscapeChar=none",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """`words` are argv up to and with `microvmctl` on the worker; `label` is what people know it by."""

    label: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """What `ssh` is told. What is left empty is for the user's own ssh configuration to say."""

    host: str
    user: str = ""
    port: int = 0
    identity: str = ""
    known_hosts: str = ""
    program: str = "microvmctl"

    def __post_init__(self) -> None:
        if not _HOST.match(self.host):
            raise BadSetting(f"{self.host[:80]!r} is not a host that ssh can be given")
        if self.user and not _USER.match(self.user):
            raise BadSetting(f"{self.user[:80]!r} is not a user that ssh can be given")
        if not 0 <= self.port <= 65535:
            raise BadSetting(f"{self.port} is not a port")
        for path in (self.identity, self.known_hosts, self.program):
            if not path.isprintable() or '"' in path:
                raise BadSetting(f"{path[:80]!r} is not a path that ssh can be given")
        if not self.program or self.program.startswith("-"):
            raise BadSetting(f"{self.program[:80]!r} is not a program")


def by_command(words: tuple[str, ...], home: Path) -> Worker:
    """A worker behind any command that carries bytes both ways: `limactl shell worker -- microvmctl`.

    One that begins with `ssh` is held to the same caution as a host that is named; what its words say comes after.
    """
    if not words or not words[0]:
        raise BadSetting("There is no command by which the worker is reached")
    label = " ".join(words)[:80]
    if Path(words[0]).name != "ssh":
        return Worker(label=label, words=words)
    settings = (*_CAUTION, *_sharing(words, home))
    return Worker(label=label, words=(words[0], *_options(settings), *words[1:]))


def by_ssh(host: SshHost, home: Path) -> Worker:
    """`home` holds the socket over which commands of one minute share a connection."""
    given = [*_options(_of(host))]
    if host.port:
        given += ["-p", str(host.port)]
    if host.user:
        given += ["-l", host.user]
    given += ["--", host.host]
    settings = (*_CAUTION, *_sharing(given, home))
    label = f"{host.user}@{host.host}" if host.user else host.host
    # The worker's shell reads the last word.
    words = ("ssh", *_options(settings), *given, shlex.quote(host.program))
    return Worker(label=label, words=words)


def _options(settings: Iterable[str]) -> list[str]:
    return [word for setting in settings for word in ("-o", setting)]


def _of(host: SshHost) -> list[str]:
    settings = []
    if host.identity:
        settings += [f"IdentityFile={_path(host.identity)}", "IdentitiesOnly=yes"]
    if host.known_hosts:
        settings += [f"UserKnownHostsFile={_path(host.known_hosts)}", "GlobalKnownHostsFile=none"]
    return settings


def _sharing(words: Iterable[str], home: Path) -> list[str]:
    """Named after all that makes the connection what it is: others must not come over it."""
    mark = hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]
    path = str(home / f"{CONTROL_PREFIX}{mark}")
    if len(path.encode()) > _LONGEST_CONTROL or not path.isprintable() or '"' in path:
        return ["ControlMaster=no", "ControlPath=none"]
    return ["ControlMaster=auto", f"ControlPath={_path(path)}", f"ControlPersist={PERSIST_S}"]


def _path(path: str) -> str:
    """As ssh reads a path in its configuration: quoted, and a percent sign doubled."""
    return '"' + path.replace("\\", "\\\\").replace("%", "%%") + '"'
