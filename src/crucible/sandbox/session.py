"""What can be asked of a running sandbox, whatever boots it. A VMM's answer is `guest.GuestSession`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import IntEnum
from typing import Literal, Protocol

from crucible.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.network.outlet import Outlet


LIMIT_PROCESSES = 4


class Channel(IntEnum):
    INPUT = 0
    OUTPUT = 1
    ERRORS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`image` is the name of a further image of the sandbox to run it in; "" is the first."""

    argv: Sequence[bytes]
    image: str = ""
    environment: Mapping[bytes, bytes] = field(default_factory=dict)
    workdir: bytes = b""
    makes_workdir: bool = False
    user: str = ""
    has_terminal: bool = False
    wants_input: bool = False
    rows: int = 24
    columns: int = 80
    timeout_s: float | None = None
    limits: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a command ended. `status` follows the shell: 128 + signal, 124 when it timed out."""

    status: int
    signal: int | None = None
    timed_out: bool = False
    out_of_memory: bool = False
    too_many_processes: bool = False
    too_much_output: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Bytes of one output channel; `offset` is where they begin in it."""

    channel: Channel
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    exit: Exit
    output: bytes
    errors: bytes


EntryType = Literal["file", "directory", "symlink", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: bytes
    type: EntryType
    mode: int
    size: int
    mtime_ns: int
    uid: int
    gid: int
    target: bytes
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a machine is given before any command runs in it."""

    entropy: bytes
    hostname: str
    machine_id: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    uptime_s: float
    cpu_s: float
    memory_total: int
    memory_available: int
    memory_user: int
    memory_peak: int
    disk_total: int
    disk_free: int
    inodes_free: int
    processes: int
    oom_kills: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecInfo:
    """A command the guest still knows about, running or ended and not yet collected."""

    stream: int
    pid: int
    is_done: bool
    started_ns: int
    argv0: bytes


class Process(Protocol):
    """One command. Its output is read in order, at the reader's pace; not reading stalls only this command."""

    stream: int
    pid: int
    input_offset: int

    async def read(self, *, grants: bool = True) -> Chunk | None:
        """The next bytes of either channel, or None when both have ended.

        Taking them grants room for more; without `grants` the sandbox keeps them for a replay until
        `grant` says that they are safe.
        """
        ...

    def grant(self, channel: Channel, count: int) -> None: ...
    async def discard(self) -> None:
        """Reads and drops all output that is still to come."""
        ...

    async def write(self, data: bytes) -> None:
        """Input for the command; waits while its window is full. Input after its end is dropped silently."""
        ...

    async def safe_input(self, beyond: int) -> int:
        """How much input the sandbox has for good, once that is more than `beyond` or the command has ended."""
        ...

    async def close_input(self) -> None: ...
    async def signal(self, number: int) -> None: ...
    async def resize(self, rows: int, columns: int) -> None: ...
    async def wait(self) -> Exit:
        """How it ended. All output must be read (or `discard`ed) for this to come about."""
        ...

    def within(self, seconds: float) -> AbstractAsyncContextManager[None]:
        """A deadline in the sandbox's time: it stands still while the sandbox does. Raises TimeoutError."""
        ...

    async def forget(self) -> None:
        """Tells the guest to drop the command; kills what still runs of it."""
        ...


class ByteStream(Protocol):
    async def read(self) -> bytes:
        """Some bytes, b'' at the end."""
        ...

    async def write(self, data: bytes) -> None: ...
    async def close_write(self) -> None: ...
    async def close(self) -> None: ...


class Files(Protocol):
    """Paths are absolute and of the guest; errors are GuestRefused with the guest's code."""

    def read(self, path: bytes, *, offset: int = 0, length: int = 0) -> AsyncIterator[bytes]: ...
    async def write(
        self,
        path: bytes,
        data: AsyncIterator[bytes] | bytes,
        *,
        mode: int = 0o644,
        owner: str = "",
        append: bool = False,
        make_parents: bool = False,
    ) -> int: ...
    async def stat(self, path: bytes, *, follow: bool = True) -> Entry: ...
    async def list(self, path: bytes) -> list[Entry]: ...
    async def remove(self, path: bytes, *, recursive: bool = False) -> None: ...
    async def rename(self, old: bytes, new: bytes) -> None: ...
    async def mkdir(
        self, path: bytes, *, mode: int = 0o755, owner: str = "", parents: bool = False
    ) -> None: ...
    def tar_out(self, root: bytes, names: Sequence[bytes] = ()) -> AsyncIterator[bytes]: ...
    def layer_out(self) -> AsyncIterator[bytes]:
        """What was changed since the start, as a layer's tar with whiteouts."""
        ...

    async def tar_in(self, root: bytes, data: AsyncIterator[bytes], *, owner: str = "") -> int: ...
    def tree(self, root: bytes, *, hashed: bool = False) -> AsyncIterator[Entry]: ...


ChangeKind = Literal["created", "written", "removed", "renamed", "attributes", "overflow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happened to a name below a watched directory. A rename is told of the old name; the new one is
    created. After an overflow, which has no name, some changes were not told.
    """

    kind: ChangeKind
    name: bytes


class Watch(Protocol):
    """A directory that is watched. Whoever does not read misses changes, and is told so by an overflow."""

    async def next(self) -> Change | None:
        """The next change, or None when the directory itself is gone."""
        ...

    async def close(self) -> None: ...


class Watches(Protocol):
    """A session that tells what changes in a directory."""

    async def watch(self, path: bytes, *, recursive: bool = False) -> Watch:
        """Changes that are made after this returned are told."""
        ...


class HasOutlet(Protocol):
    """A session on a machine whose network, if any, is what its outlet lets through."""

    async def outlet(self) -> Outlet:
        """Turns the network on. There is one at a time; a machine that is taken over or copied has none."""
        ...


class Session(Protocol):
    """A running sandbox. Verbs raise SandboxError when the sandbox, not the request, is at fault."""

    @property
    def files(self) -> Files: ...
    async def start(self, command: Command) -> Process: ...
    async def run(
        self, command: Command, *, input: bytes = b"", max_output: int = 1 << 24
    ) -> Completed: ...
    async def dial(self, port: int) -> ByteStream: ...
    async def stats(self) -> Stats: ...
    async def close(self) -> None: ...
