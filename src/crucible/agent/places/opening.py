"""The sandbox of a session: found again by its name, started if it stands, made if there is none."""

from __future__ import annotations

import contextlib
import io
import secrets
import tarfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crucible.agent.workplace import WORKSPACE
from crucible.errors import GuestRefused, SandboxMissing
from crucible.sandbox.executions import Executions
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import LOCAL
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from crucible.network.secrets import Secret

PREFIX = "agent-"
# A command's facts have this if a session began it: whoever finds it running after a crash ends it.
OF_AGENT = "agent"

STARTED_AGAIN = (
    "The sandbox had ended{why} and was started again. Its files are as they were; "
    "processes, the interpreter's variables and what was in memory are gone"
)
MADE_ANEW = "The sandbox of this session was gone, so a new one was made. Its files are gone too"
ENDED_COMMANDS = "What ran when this session was cut short was ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRoom:
    """The verbs by which everybody works with sandboxes. `mark` is on all commands that this program starts."""

    manager: Manager
    executions: Executions
    snapshots: Snapshots
    mark: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a session asks for. `host_directory` is copied in when the sandbox is made.

    `checkpoints` is how many are kept; each holds the sandbox's memory and disk. `owner` is the session's user.
    """

    spec: SandboxSpec = field(default_factory=SandboxSpec)
    host_directory: str | None = None
    secrets: Sequence[Secret] = field(default=(), repr=False)
    checkpoints: int = 10
    owner: str = LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """`news` is what the model should know of how it came about."""

    held: Held
    news: str = ""


def name_of(session: str) -> str:
    return f"{PREFIX}{session}"


async def open_sandbox(room: SandboxRoom, name: str, wanted: Wanted, *, is_known: bool) -> Opened:
    """`is_known`: this session has had a sandbox before, so that a new one is news."""
    try:
        return await _find(room, name, wanted)
    except SandboxMissing:
        held = await _make(room, name, wanted)
        return Opened(held=held, news=MADE_ANEW if is_known else "")


async def _find(room: SandboxRoom, name: str, wanted: Wanted) -> Opened:
    manager = room.manager
    record = manager.find(name)
    held = manager.held.get(record.id)
    if held is not None and not held.machine.has_ended:
        if record.state == "paused":
            await manager.resume(name)
            await room.executions.wake(held)
        if record.state in ("running", "paused"):
            if manager.secrets.missing(record):
                # Taken over from a program that took the values with it: one that runs learns them, too.
                await manager.start(name, secrets=wanted.secrets)
            return Opened(held=held, news=await _end_commands(room, held))
    is_first = not record.has_disk
    await manager.start(name, secrets=wanted.secrets)
    held = manager.running(name)
    if is_first:
        await _furnish(held)
        return Opened(held=held)
    why = f" ({record.note})" if record.note else ""
    return Opened(held=held, news=STARTED_AGAIN.format(why=why))


async def _make(room: SandboxRoom, name: str, wanted: Wanted) -> Held:
    manager = room.manager
    await manager.create(
        name,
        wanted.spec,
        host_directory=wanted.host_directory,
        secrets=wanted.secrets,
        owner=wanted.owner,
    )
    await manager.start(name, secrets=wanted.secrets)
    held = manager.running(name)
    await _furnish(held)
    if wanted.spec.after_create:
        from crucible.sandbox.service.first_steps import take_first_steps

        with held.used():
            await take_first_steps(held, _Nobody())
    return held


async def _furnish(held: Held) -> None:
    """Makes the workspace, which leads to the image's own place for a copied directory where that is another."""
    files, image = held.machine.files, held.image
    is_copied = held.record.host_directory is not None and image.workspace != WORKSPACE
    with contextlib.suppress(GuestRefused):
        if is_copied:
            await files.tar_in(b"/", _link(WORKSPACE, image.workspace))
        else:
            await files.mkdir(WORKSPACE.encode(), owner=image.owner, parents=True)


class _Nobody:
    """How the first steps went is seen from what they left."""

    async def progress(self, stage: str, detail: str) -> None:
        return

    async def notice(self, text: str) -> None:
        return


async def _link(path: str, target: str) -> AsyncIterator[bytes]:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
        archive.addfile(entry)
    yield made.getvalue()


async def _end_commands(room: SandboxRoom, held: Held) -> str:
    """Commands of this session that nobody waits for any more: of a program that died in the middle of a call."""
    left = [one for one in room.executions.running(held.record) if one.facts.get(OF_AGENT)]
    strangers = [one for one in left if one.facts[OF_AGENT] != room.mark and not one.is_done]
    for one in strangers:
        await one.attach()
        one.is_given_up = True
        await one.process.forget()
    return ENDED_COMMANDS if strangers else ""
