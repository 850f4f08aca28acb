"""Sandboxes without machines: the real manager and the real doors above a backend whose commands a test plays.

A command's first word says which part is played for it; a part reads and writes like a program and gives the status.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.server.conftest import Server, opened

from crucible.config import Config
from crucible.errors import GuestGone, GuestRefused, Unsupported
from crucible.images import bundle
from crucible.images.catalog import shelf_of
from crucible.sandbox.backend import BootPlan, MachineHandle, Missing, Stage
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.machines import Machines
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import open_records
from crucible.sandbox.session import Channel, Chunk, Command, Entry, ExecInfo, Exit, Identity
from crucible.wire.frames import WINDOW_BYTES

Part = Callable[["PlayedProcess"], Awaitable[int]]
_KILLS = (1, 2, 9, 15)


class PlayedProcess:
    """As the guest's: what is not granted room for is not said, and input that nobody takes fills a window."""

    def __init__(self, machine: PlayedMachine, command: Command, stream: int, part: Part) -> None:
        self.command = command
        self.stream = stream
        self.pid = 1000 + stream
        self.input_offset = 0
        self.signals: list[int] = []
        self.said = 0
        self.taken = 0
        self.most_waiting = 0
        self._offsets = {Channel.OUTPUT: 0, Channel.ERRORS: 0}
        self._room = {Channel.OUTPUT: WINDOW_BYTES, Channel.ERRORS: WINDOW_BYTES}
        self._coming: deque[Chunk] = deque()
        self._input: deque[bytes] = deque()
        self._waiting = 0
        self._has_input_ended = False
        self._changed = asyncio.Condition()
        self._exit: Exit | None = None
        self.fault: Exception | None = None
        self._machine = machine
        self.playing = asyncio.create_task(self._play(part))

    async def _play(self, part: Part) -> None:
        try:
            await self._end(Exit(status=await part(self)))
        except asyncio.CancelledError:
            number = self.signals[-1] if self.signals else 9
            await self._end(Exit(status=128 + number, signal=number))

    async def _end(self, exit: Exit) -> None:
        self._exit = exit
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: is_so() or self.fault is not None)
        if self.fault is not None:
            raise self.fault

    # What a part does.

    async def say(self, data: bytes, channel: Channel = Channel.OUTPUT) -> None:
        await self._until(lambda: self._room[channel] >= len(data))
        self._room[channel] -= len(data)
        self._coming.append(Chunk(channel=channel, offset=self._offsets[channel], data=data))
        self._offsets[channel] += len(data)
        self.said += len(data)
        await self._tell()

    async def hear(self) -> bytes:
        """The next input, b'' at its end."""
        await self._until(lambda: bool(self._input) or self._has_input_ended)
        if not self._input:
            return b""
        data = self._input.popleft()
        self._waiting -= len(data)
        self.taken += len(data)
        await self._tell()
        return data

    async def for_ever(self) -> int:
        await asyncio.Event().wait()
        return 0

    # What the host does.

    async def read(self, *, grants: bool = True) -> Chunk | None:
        await self._until(lambda: bool(self._coming) or self._exit is not None)
        if not self._coming:
            return None
        chunk = self._coming.popleft()
        if grants:
            self.grant(chunk.channel, len(chunk.data))
        return chunk

    def grant(self, channel: Channel, count: int) -> None:
        self._room[channel] += count
        self._machine.later(self._tell())

    async def discard(self) -> None:
        while await self.read() is not None:
            pass

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), 65_536):
            piece = data[start : start + 65_536]
            await self._until(lambda: self._waiting < WINDOW_BYTES or self._exit is not None)
            if self._exit is None:
                self._input.append(piece)
                self._waiting += len(piece)
                self.most_waiting = max(self.most_waiting, self._waiting)
                await self._tell()

    async def safe_input(self, beyond: int) -> int:
        await self._until(lambda: self.taken > beyond or self._exit is not None)
        return self.taken

    async def close_input(self) -> None:
        self._has_input_ended = True
        await self._tell()

    async def signal(self, number: int) -> None:
        self.signals.append(number)
        if number in _KILLS:
            self.playing.cancel()

    async def resize(self, rows: int, columns: int) -> None:
        return

    async def wait(self) -> Exit:
        await self._until(lambda: self._exit is not None)
        assert self._exit is not None
        return self._exit

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        async with asyncio.timeout(seconds):
            yield

    async def forget(self) -> None:
        self.playing.cancel()

    async def fail(self, error: Exception) -> None:
        self.fault = error
        await self._tell()


_ACCOUNTS = b"root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/workspace:/bin/sh\n"


class PlayedFiles:
    """Files in memory, without directories and owners."""

    def __init__(self) -> None:
        self.content = {b"/etc/passwd": _ACCOUNTS}

    async def write(self, path: bytes, data: AsyncIterator[bytes] | bytes, **options: Any) -> int:
        self.content[path] = (
            data if isinstance(data, bytes) else b"".join([one async for one in data])
        )
        return len(self.content[path])

    async def read(self, path: bytes, *, offset: int = 0, length: int = 0) -> AsyncIterator[bytes]:
        found = self._found(path)[offset:]
        yield found[:length] if length else found

    async def stat(self, path: bytes, *, follow: bool = True) -> Entry:
        return Entry(
            name=path, type="file", mode=0o644, size=len(self._found(path)), mtime_ns=0, uid=1000, gid=1000,
            target=b"", sha256=b"",
        )  # fmt: skip

    async def tree(self, root: bytes, *, hashed: bool = False) -> AsyncIterator[Entry]:
        """Files and the directories that they are in, as the owner of neither."""
        names = {path[len(root) + 1 :] for path in self.content if path.startswith(root + b"/")}
        directories = {
            b"/".join(parts[:count])
            for parts in (name.split(b"/") for name in names)
            for count in range(1, len(parts))
        }
        for name in sorted(names | directories):
            is_file = name in names
            data = self.content[root + b"/" + name] if is_file else b""
            yield Entry(
                name=name, type="file" if is_file else "directory", mode=0o644 if is_file else 0o755,
                size=len(data), mtime_ns=0, uid=1000, gid=1000, target=b"",
                sha256=hashlib.sha256(data).digest() if is_file else b"",
            )  # fmt: skip

    def _found(self, path: bytes) -> bytes:
        if path not in self.content:
            raise GuestRefused("not-found", f"{path!r} is not there")
        return self.content[path]

    async def mkdir(self, path: bytes, **options: Any) -> None:
        return

    async def remove(self, path: bytes, *, recursive: bool = False) -> None:
        return

    async def tar_in(self, root: bytes, data: AsyncIterator[bytes], *, owner: str = "") -> int:
        return sum([len(piece) async for piece in data])

    async def tar_out(self, root: bytes, names: Sequence[bytes] = ()) -> AsyncIterator[bytes]:
        yield bytes(1024)

    def __getattr__(self, name: str) -> Any:
        raise Unsupported(f"No files are played here ({name})")


class PlayedConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(65_536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close_write(self) -> None:
        self._writer.write_eof()

    async def close(self) -> None:
        self._writer.transport.abort()


class PlayedMachine:
    stages: tuple[Stage, ...] = ()

    def __init__(self, plan: BootPlan, parts: dict[str, Part]) -> None:
        self.name = plan.name
        self.files = PlayedFiles()
        self.processes: list[PlayedProcess] = []
        self.ports: dict[int, int] = {}
        self._parts = parts
        self._streams = itertools.count(1)
        self._ended = asyncio.get_running_loop().create_future()
        self._errands: set[asyncio.Task[None]] = set()

    @property
    def handle(self) -> MachineHandle:
        return MachineHandle(pid=1 << 22, started="played")

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    def later(self, errand: Any) -> None:
        task = asyncio.ensure_future(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def start(self, command: Command) -> PlayedProcess:
        part = self._parts.get(command.argv[0].decode())
        if part is None:
            raise GuestRefused("not-found", f"{command.argv[0]!r} is not played here")
        process = PlayedProcess(self, command, next(self._streams), part)
        self.processes.append(process)
        return process

    async def dial(self, port: int) -> PlayedConnection:
        """Who listens in the machine is played by a server on loopback; see `ports`."""
        if port not in self.ports:
            raise GuestRefused("unreachable", "connection refused")
        return PlayedConnection(*await asyncio.open_connection("127.0.0.1", self.ports[port]))

    async def die(self, why: str = "it was killed") -> None:
        for process in self.processes:
            await process.fail(GuestGone(self.name, why))
        if not self._ended.done():
            self._ended.set_result(why)

    async def ended(self) -> str:
        return str(await asyncio.shield(self._ended))

    async def close(self) -> None:
        for process in self.processes:
            process.playing.cancel()
        tasks = [process.playing for process in self.processes]
        await asyncio.gather(*tasks, *self._errands, return_exceptions=True)
        if not self._ended.done():
            self._ended.set_result("it was stopped")

    async def shutdown(self, grace_s: float) -> None:
        await self.close()

    async def detach(self) -> None:
        return

    async def pause(self) -> None:
        return

    async def resume(self) -> None:
        return

    async def become(self, name: str, identity: Identity) -> None:
        self.name = name

    async def confine(self, *, read_only: bool, no_powers: bool) -> None:
        return

    async def list_execs(self) -> list[ExecInfo]:
        return []

    async def end_processes(self, grace_s: float) -> None:
        return

    async def console(self) -> bytes:
        return b""


class PlayedBackend:
    """`parts` by the first word of a command; `machines` by the names of their sandboxes."""

    name = "played"
    is_remote = False

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {"true": _succeed, "sleep": PlayedProcess.for_ever}
        self.machines: dict[str, PlayedMachine] = {}

    async def is_worth_trying(self) -> bool:
        return True

    async def probe(self) -> Missing | None:
        return None

    async def isolation(self) -> Isolation:
        return Isolation.SOFTWARE_VM

    async def boot(self, plan: BootPlan) -> PlayedMachine:
        self.machines[plan.name] = PlayedMachine(plan, self.parts)
        return self.machines[plan.name]

    def is_alive(self, handle: MachineHandle) -> bool:
        return True

    def bury(self, directory: Path, sandbox_id: str, handle: MachineHandle | None) -> None:
        return


async def _succeed(process: PlayedProcess) -> int:
    return 0


def make_base(home: Path, *, user: str = "user") -> None:
    """An image that nothing can be booted from, and nothing is."""
    home.mkdir(mode=0o700, exist_ok=True)
    with bundle.workplace(shelf_of(home, "base")) as place:
        (place / "root.squashfs").write_bytes(b"none")
        (place / "packages.txt").write_bytes(b"")
        facts: bundle.Facts = {
            "user": user,
            "workdir": "/workspace",
            "environment": (),
            "recipe": "none",
        }
        bundle.publish(place, shelf_of(home, "base"), facts=facts)


class Staged(Server):
    """A server whose sandboxes are played."""

    backend: PlayedBackend

    def process(self, sandbox: str, number: int = -1) -> PlayedProcess:
        return self.backend.machines[sandbox].processes[number]


def played(home: Path) -> tuple[PlayedBackend, Manager]:
    make_base(home)
    backend = PlayedBackend()
    manager = Manager(
        config=Config(home=home, pulls_images=False),
        records=open_records(home),
        machines=Machines([backend]),  # type: ignore[list-item]
    )
    return backend, manager


@asynccontextmanager
async def staging(home: Path, **options: Any) -> AsyncIterator[Staged]:
    backend, manager = played(home)
    async with opened(manager, **options) as doors:
        stage = Staged(doors)
        stage.backend = backend
        yield stage


async def new_box(staged: Staged, name: str = "box", **fields: Any) -> str:
    """A played sandbox that runs."""
    async with staged.client() as client:
        body = {"name": name, "settings": {"network": "off"}, **fields}
        answer = await client.post("/api/v1/sandboxes", json=body)
        assert answer.status_code == 201, answer.text
    return name
