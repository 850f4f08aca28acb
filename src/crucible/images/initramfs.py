"""The first filesystem of a machine: the guest agent as `/init` and the modules it loads.

Written as a plain `newc` archive, byte for byte the same for the same content. It is not compressed: a guest without
hardware virtualization unpacks slowly, while the host hands over a few megabytes in no time.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import AgentMissing, HostDiskFull, KernelMissing
from crucible.images.bundle import write_durably
from crucible.images.kernel import Kernel

_LAYOUT = b"crucible initramfs 1\n"
_DIRECTORIES = ("dev", "modules", "mnt", "proc", "run", "sys", "tmp")
_BLOCK = 512

_S_IFDIR = 0o040000
_S_IFCHR = 0o020000
_S_IFREG = 0o100000


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of an archive. `device` is the major and minor number of a device node."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def initramfs_for(home: Path, agent: Path, kernel: Kernel) -> Path:
    """The archive of this agent and this kernel's modules; made on first use, then found by digest."""
    program = _read_agent(agent)
    key = hashlib.sha256(_LAYOUT + kernel.digest.encode() + hashlib.sha256(program).digest())
    path = home / "initramfs" / f"{key.hexdigest()}.cpio"
    sizes = [len(program), *(_size_of(module) for module in kernel.modules)]
    if path.exists() and path.stat().st_size > sum(sizes):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, archive(_members(program, kernel)))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise HostDiskFull(str(path)) from error
        raise
    return path


def archive(members: Iterable[Member]) -> bytes:
    """A `newc` archive: all times zero, all owned by root, numbered in the order given."""
    parts = [_entry(number, member) for number, member in enumerate(members, start=1)]
    parts.append(_entry(0, Member(name="TRAILER!!!", mode=0)))
    whole = b"".join(parts)
    return whole + b"\0" * (-len(whole) % _BLOCK)


def _members(program: bytes, kernel: Kernel) -> Iterable[Member]:
    yield Member(name=".", mode=_S_IFDIR | 0o755)
    for directory in _DIRECTORIES:
        yield Member(name=directory, mode=_S_IFDIR | 0o755)
    # The kernel opens it for /init before anything is mounted; without it the console stays silent.
    yield Member(name="dev/console", mode=_S_IFCHR | 0o600, device=(5, 1))
    yield Member(name="init", mode=_S_IFREG | 0o755, data=program)
    order = "".join(f"{module.name}\n" for module in kernel.modules)
    yield Member(name="modules/order", mode=_S_IFREG | 0o644, data=order.encode())
    for module in kernel.modules:
        data = module.read_bytes()
        yield Member(name=f"modules/{module.name}", mode=_S_IFREG | 0o644, data=data)


def _entry(number: int, member: Member) -> bytes:
    name = member.name.encode() + b"\0"
    links = 2 if member.mode & _S_IFDIR and not member.mode & _S_IFREG else 1
    fields = (
        number,
        member.mode,
        0,  # uid
        0,  # gid
        links,
        0,  # mtime
        len(member.data),
        0,  # device the file lies on
        0,
        *member.device,
        len(name),
        0,  # checksum, unused by newc
    )
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(member.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _read_agent(agent: Path) -> bytes:
    try:
        return agent.read_bytes()
    except FileNotFoundError:
        raise AgentMissing(str(agent)) from None


def _size_of(module: Path) -> int:
    try:
        return module.stat().st_size
    except FileNotFoundError:
        raise KernelMissing(f"{module.name} is missing") from None
