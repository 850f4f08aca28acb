"""Where a session's tools work: one sandbox, opened when it is first needed. A tool sees this and never a machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

WORKSPACE = "/workspace"

Channel = Literal["stdout", "stderr"]
Heard = Callable[[Channel, bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The sandbox as the ledger names it. `isolation` is the boundary that is really there."""

    sandbox: str
    name: str
    image: str
    image_digest: str
    isolation: str
    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended: a status, or why there is none. `is_cut`: more was written than is kept here.

    `reason` is also told where a status alone says little: that it ran out of memory, say.
    """

    exit_status: int | None
    stdout: bytes
    stderr: bytes
    duration_s: float
    timed_out: bool = False
    reason: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What code showed, in one or more forms by media type (`text/plain`, `image/png`, `text/html`, …)."""

    forms: Mapping[str, str]
    is_main: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What a piece of code in the persistent interpreter did."""

    stdout: str
    stderr: str
    shown: tuple[Shown, ...]
    error: str = ""
    traceback: str = ""
    duration_s: float = 0.0
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """`path` is absolute; `kind` is one letter as `ls` has it: `f`, `d`, `l`, or `o` for anything else."""

    path: str
    kind: Literal["f", "d", "l", "o"]
    size: int
    mode: int
    modified_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A moment of the sandbox that can be gone back to, and what keeping it costs."""

    id: str
    taken_at: float
    bytes: int
    duration_s: float


class Workplace(Protocol):
    """All paths are absolute ones of the sandbox. Verbs raise CrucibleError of the sandbox room when it fails.

    Whoever is cancelled while waiting for `run` or `evaluate` has ended what ran: nothing of it is left in the sandbox.
    """

    @property
    def place(self) -> Place | None:
        """None until it was first needed."""
        ...

    async def open(self) -> Place: ...

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float,
        input: bytes = b"",
        workdir: str = WORKSPACE,
        environment: Mapping[str, str] | None = None,
        max_output: int = 1 << 24,
        heard: Heard | None = None,
    ) -> Ran: ...

    async def evaluate(
        self, code: str, *, timeout_s: float, heard: Heard | None = None
    ) -> Evaluated:
        """Python in the session's own interpreter, which keeps its variables between calls."""
        ...

    async def read(self, path: str, *, offset: int = 0, length: int = 0) -> bytes: ...
    async def write(self, path: str, data: bytes | AsyncIterator[bytes]) -> None:
        """Makes parents; atomic: the old bytes or the new. A file that is there keeps its mode, a link its target."""
        ...

    async def stat(self, path: str) -> FileFacts | None:
        """Of what a link leads to; None if there is nothing."""
        ...

    def walk(self, path: str) -> AsyncGenerator[FileFacts, None]:
        """Everything beneath, parents first, links not followed."""
        ...

    async def list(self, path: str) -> tuple[FileFacts, ...]: ...

    async def close(self, *, keep: bool = False) -> None:
        """Removes the sandbox, or lets go of it if it shall be found again."""
        ...


@runtime_checkable
class HasNews(Protocol):
    """A workplace to which things happen between two calls."""

    def news(self) -> str:
        """What the model should know of it before it goes on, once: that the sandbox is a new one, say. Else ""."""
        ...


@runtime_checkable
class Rewinds(Protocol):
    """A workplace that can go back. Raises Unsupported where the backend cannot snapshot."""

    async def checkpoint(self) -> Checkpoint:
        """Of this moment. The oldest are forgotten where there are more than the session keeps."""
        ...

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Those that are there, the oldest first."""
        ...

    async def rewind(self, checkpoint: str) -> None:
        """The sandbox is as it was then: files, processes, the interpreter's variables. Later checkpoints stay."""
        ...

    async def forget(self, checkpoint: str) -> None: ...
    async def branch(self, checkpoint: str, *, session: str) -> Workplace:
        """The workplace of another session, which begins at that moment. Its sandbox is called after the session."""
        ...


class Line(Protocol):
    """A program that is talked with over its standard input and output."""

    @property
    def complaints(self) -> bytes:
        """The last of what it wrote to its standard error so far."""
        ...

    async def send(self, data: bytes) -> None: ...
    async def receive(self) -> bytes:
        """The next bytes it wrote, b'' when it has ended."""
        ...

    async def close(self) -> None:
        """Ends it, with all that it started."""
        ...


@runtime_checkable
class Converses(Protocol):
    """A workplace where programs can be talked with."""

    async def converse(
        self, argv: tuple[str, ...], *, environment: Mapping[str, str] | None = None
    ) -> Line: ...
