"""A session's workplace that is a named sandbox: it outlives the program that opened it, and is found again."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Literal

from crucible.agent.places.checkpoints import Checkpoints, aside_of, put_back
from crucible.agent.places.commands import run_command
from crucible.agent.places.interpreting import evaluate
from crucible.agent.places.lines import open_line
from crucible.agent.places.opening import SandboxRoom, Wanted, name_of, open_sandbox
from crucible.agent.workplace import (
    WORKSPACE,
    Checkpoint,
    Evaluated,
    FileFacts,
    Heard,
    Line,
    Place,
    Ran,
)
from crucible.errors import GuestGone, GuestRefused, SandboxMissing, WorkplaceLost
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Entry, EntryType
from crucible.sandbox.spec import check_name

LARGEST_READ = 64 << 20
_KINDS: Mapping[EntryType, Literal["f", "d", "l", "o"]] = {
    "file": "f",
    "directory": "d",
    "symlink": "l",
    "other": "o",
}


class SandboxWorkplace:
    """Opened when it is first needed. `had_sandbox`: there was one of that name when the session was last kept."""

    def __init__(
        self, room: SandboxRoom, name: str, wanted: Wanted, *, had_sandbox: bool = False
    ) -> None:
        self.name = check_name(name)
        self._room = room
        self._wanted = wanted
        self._is_known = had_sandbox
        self._held: Held | None = None
        self._place: Place | None = None
        self._news: list[str] = []
        self._opening = asyncio.Lock()
        self._evaluating = asyncio.Lock()
        self._checkpoints = Checkpoints(room, self.name, wanted)

    @property
    def place(self) -> Place | None:
        return self._place

    def news(self) -> str:
        told, self._news = "; ".join(self._news), []
        return told

    async def open(self) -> Place:
        async with self._opening:
            if self._place is None or self._usable() is None:
                await put_back(self._room.manager, self.name)
                opened = await open_sandbox(
                    self._room, self.name, self._wanted, is_known=self._is_known
                )
                self._news += [opened.news] if opened.news else []
                self._take(opened.held)
            assert self._place is not None  # noqa: S101 - taken just now
            return self._place

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
    ) -> Ran:
        async with self._at_work() as held:
            return await run_command(
                self._room, held, argv,
                timeout_s=timeout_s, input=input, workdir=workdir, environment=environment or {},
                max_output=max_output, heard=heard,
            )  # fmt: skip

    async def evaluate(
        self, code: str, *, timeout_s: float, heard: Heard | None = None
    ) -> Evaluated:
        # One after the other: an interrupt means whatever runs.
        async with self._evaluating, self._at_work() as held:
            return await evaluate(held, code, timeout_s=timeout_s, heard=heard)

    async def converse(
        self, argv: tuple[str, ...], *, environment: Mapping[str, str] | None = None
    ) -> Line:
        async with self._at_work() as held:
            return await open_line(self._room, held, argv, environment or {})

    async def read(self, path: str, *, offset: int = 0, length: int = 0) -> bytes:
        most = min(length or LARGEST_READ + 1, LARGEST_READ + 1)
        data = bytearray()
        async with self._at_work() as held:
            reading = held.machine.files.read(os.fsencode(path), offset=offset, length=most)
            async with _closing(reading):
                async for piece in reading:
                    data += piece
                    if len(data) >= most:
                        break
        if len(data) > LARGEST_READ:
            raise GuestRefused("too-large", f"{path!r} has more than {LARGEST_READ >> 20} MiB")
        return bytes(data[:most])

    async def write(self, path: str, data: bytes | AsyncIterator[bytes]) -> None:
        async with self._at_work() as held:
            files, name = held.machine.files, os.fsencode(path)
            mode, owner = 0o644, held.image.owner
            with contextlib.suppress(GuestRefused):
                there = await files.stat(name)
                mode, owner = there.mode & 0o7777, f"{there.uid}:{there.gid}"
            await files.write(name, data, mode=mode, owner=owner, make_parents=True)

    async def stat(self, path: str) -> FileFacts | None:
        async with self._at_work() as held:
            try:
                return _facts(path, await held.machine.files.stat(os.fsencode(path)))
            except GuestRefused as error:
                if error.guest_code == "not-found":
                    return None
                raise

    async def walk(self, path: str) -> AsyncGenerator[FileFacts, None]:
        async with self._at_work() as held:
            tree = held.machine.files.tree(os.fsencode(path))
            async with _closing(tree):
                async for entry in tree:
                    yield _facts(_beneath(path, entry), entry)

    async def list(self, path: str) -> tuple[FileFacts, ...]:
        async with self._at_work() as held:
            entries = await held.machine.files.list(os.fsencode(path))
            return tuple(_facts(_beneath(path, entry), entry) for entry in entries)

    async def checkpoint(self) -> Checkpoint:
        async with self._at_work():
            return await self._checkpoints.take()

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        return await self._checkpoints.all()

    async def rewind(self, checkpoint: str) -> None:
        """If it fails the sandbox is as it was, and the checkpoint is still there."""
        async with self._opening:
            self._held = None
            self._take(await self._checkpoints.restore(checkpoint))

    async def forget(self, checkpoint: str) -> None:
        await self._checkpoints.forget(checkpoint)

    async def branch(self, checkpoint: str, *, session: str) -> SandboxWorkplace:
        other = SandboxWorkplace(self._room, name_of(session), self._wanted)
        other._take(await self._checkpoints.copy(checkpoint, other.name))
        return other

    async def close(self, *, keep: bool = False) -> None:
        """With the sandbox its checkpoints go."""
        async with self._opening:
            self._held = None
            if keep:
                return
            self._place, self._is_known = None, False
            for name in (self.name, aside_of(self.name)):
                with contextlib.suppress(SandboxMissing):
                    await self._room.manager.remove(name, force=True)
            await self._checkpoints.forget_all()

    def _usable(self) -> Held | None:
        held = self._held
        if held is None or self._room.manager.held.get(held.record.id) is not held:
            return None
        return held if held.awake.is_set() and not held.machine.has_ended else None

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[Held]:
        held = self._usable()
        if held is None:
            await self.open()
            held = self._held
        assert held is not None  # noqa: S101 - it was opened
        try:
            with held.used():
                yield held
        except GuestGone as error:
            raise WorkplaceLost(self.name, error.why) from error

    def _take(self, held: Held) -> None:
        record = held.record
        self._held, self._is_known = held, True
        self._place = Place(
            sandbox=record.id,
            name=record.name,
            image=record.spec.image,
            image_digest=record.image_digest,
            isolation=str(record.isolation),
            backend=record.backend,
        )


def _beneath(path: str, entry: Entry) -> str:
    return f"{path.rstrip('/')}/{os.fsdecode(entry.name)}"


def _facts(path: str, entry: Entry) -> FileFacts:
    return FileFacts(
        path=path,
        kind=_KINDS[entry.type],
        size=entry.size,
        mode=entry.mode & 0o7777,
        modified_at=entry.mtime_ns / 1e9,
    )


@asynccontextmanager
async def _closing(source: AsyncIterator[object]) -> AsyncIterator[None]:
    """Whoever stops reading before the end tells the guest so now, not when memory is next cleaned up."""
    if isinstance(source, AsyncGenerator):
        async with aclosing(source):
            yield
    else:
        yield
