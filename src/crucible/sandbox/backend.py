"""The seam to whatever boots machines. A backend knows one VMM and no caller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from crucible.images.catalog import Image
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.session import ExecInfo, HasOutlet, Identity, Process, Session, Watches
from crucible.values import dataclass

if TYPE_CHECKING:
    from crucible.sandbox.spec import SandboxSpec

# The size of the disk on which large input is laid down for a machine; PROTOCOL.md fixes it.
EXCHANGE_BYTES = 4 << 20

Report = Callable[[str, str], None]
Lifetime = Literal["command", "sandbox"]
Disk = Literal["fresh", "kept", "once"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What the host lacks for a backend, and the exact command that mends it.

    `is_prerequisite`: it is a program that can be installed, not a power this machine has not.
    """

    what: str
    fix: str
    is_prerequisite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPlan:
    """Everything a backend needs to know. `directory` exists, is private and will hold all its files.

    `has_network` is for a backend elsewhere, which alone can turn it off; a machine of ours has none but its outlet.

    lifetime "command" ends with the calling process, however that dies; "sandbox" outlives it.
    `disk` "fresh" begins from the image, "kept" boots again from the disk that is in `directory`; "once" begins from
    an image of which no second machine will be started, so that preparing for others is not worth it.
    """

    sandbox_id: str
    name: str
    directory: Path
    image: Image
    memory_mib: int
    cpus: int
    disk_mib: int
    identity: Identity
    lifetime: Lifetime
    disk: Disk = "fresh"
    host_uid: int | None = None
    has_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One measured part of a start, in seconds."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineHandle:
    """What must be written down so that another process can take a machine over, or bury it."""

    pid: int
    started: str
    detail: str = ""


class Machine(Session, HasOutlet, Watches, Protocol):
    """A session on a machine of ours, which can be held still, kept and handed on."""

    @property
    def handle(self) -> MachineHandle: ...
    @property
    def stages(self) -> tuple[Stage, ...]: ...
    async def confine(self, *, read_only: bool, no_powers: bool) -> None:
        """From now on nothing can be written to the disk, or commands have no capabilities."""
        ...

    @property
    def has_ended(self) -> bool: ...
    async def pause(self) -> None: ...
    async def resume(self) -> None: ...
    async def become(self, name: str, identity: Identity) -> None:
        """Sets a machine going that stood still since it was warmed, as another: with fresh entropy, time and ids.

        Its stages begin anew: what was measured before was not for whoever has it now.
        """
        ...

    async def list_execs(self) -> list[ExecInfo]: ...
    async def attach(
        self, info: ExecInfo, *, output_offset: int = 0, errors_offset: int = 0
    ) -> Process: ...
    async def console(self) -> bytes: ...
    async def ended(self) -> str:
        """Waits until the machine is gone and says why."""
        ...

    async def end_processes(self, grace_s: float) -> None:
        """Asks every process inside to end, and ends those that do not in time. What they wrote can be read."""
        ...

    async def shutdown(self, grace_s: float) -> None:
        """Ends it cleanly: the disk is complete afterwards."""
        ...

    async def detach(self) -> None:
        """Lets go without ending it."""
        ...


@runtime_checkable
class Lends(Protocol):
    """A machine whose channel another host can have, which then speaks to the guest in our place."""

    async def lend(self) -> socket:
        """The bytes of the channel. What is asked of the guest here fails from now on with SandboxLent."""
        ...


class Backend(Protocol):
    """Turns a plan into a session. What it booted outlives the process that asked for it, and can be taken over.

    One that `is_remote` runs sandboxes on somebody else's machines: it needs none of this host's memory, users and
    images, what it says of its isolation is a claim, and it opens no doors of ours.
    """

    @property
    def name(self) -> str: ...
    @property
    def is_remote(self) -> bool: ...
    async def is_worth_trying(self) -> bool:
        """Whether `auto` should consider it here; cheap, and says nothing about working."""
        ...

    async def probe(self) -> Missing | None: ...
    async def isolation(self) -> Isolation: ...
    async def boot(self, plan: BootPlan) -> Machine:
        """Raises BootFailed or GuestSilent, and then leaves nothing running."""
        ...

    async def adopt(self, plan: BootPlan, handle: MachineHandle, *, is_paused: bool) -> Machine:
        """Takes over a running machine whose holder died; `is_paused` if it was paused by request.

        Raises GuestGone if it has ended meanwhile, whether or not its process has.
        """
        ...

    def is_alive(self, handle: MachineHandle) -> bool: ...
    def bury(self, directory: Path, sandbox_id: str, handle: MachineHandle | None) -> None:
        """Ends what runs and removes what lies outside the directory (limits groups). Blocks.

        Raises SandboxError if it cannot be known whether something still runs: the record must stay.
        """
        ...


class RemoteBackend(Backend, Protocol):
    """A backend elsewhere."""

    def check(self, spec: SandboxSpec) -> None:
        """Raises Unsupported by name for what a specification promises and this backend cannot keep."""
        ...

    def may_run(self, directory: Path) -> bool:
        """Whether something of the sandbox with that directory may still be there; not, once it was ended or buried."""
        ...

    def image(self, name: str) -> Image:
        """What stands for an image of that name, which is not on this host."""
        ...


@runtime_checkable
class KeepsElsewhere(Protocol):
    """A backend that has more of a named sandbox than what lies in its directory."""

    def forget(self, sandbox_id: str) -> None:
        """The sandbox is removed: so is what is kept of it, as soon as that can be."""
        ...

    async def settled(self) -> None:
        """Returns when nothing is under way that nobody waits for."""
        ...


@runtime_checkable
class KeepsMachines(Backend, Protocol):
    """A backend whose machines can be copied while they run, and kept waiting."""

    async def snapshot(self, machine: Machine, plan: BootPlan, into: Path) -> None:
        """Saves memory, processes and disk into an empty directory; the machine goes on afterwards."""
        ...

    def pack_snapshot(self, directory: Path, target: Path, facts: dict[str, Any]) -> None:
        """Writes a snapshot and the facts to one file. Blocks."""
        ...

    def unpack_snapshot(self, source: Path, directory: Path) -> dict[str, Any]:
        """Fills an empty directory from such a file, which may come from anywhere. Blocks."""
        ...

    async def restore(self, plan: BootPlan, snapshot: Path) -> Machine:
        """Boots a copy of a snapshot under a new identity."""
        ...

    def forget_saved(self, snapshot: Path) -> None:
        """Gives back what was kept at hand to start from a snapshot that will not be used any more."""
        ...
