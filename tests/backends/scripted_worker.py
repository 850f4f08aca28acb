"""A worker without machines: the real service behind a real `owner.sock`, over guests that are played here."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from tests.sandbox.scripted_guest import OUTPUT, ScriptedGuest

from crucible.client.protocol import SOCKET_NAME
from crucible.config import Config
from crucible.errors import SandboxLent
from crucible.images.catalog import Image
from crucible.sandbox.backend import Backend, BootPlan, MachineHandle, Missing, Stage
from crucible.sandbox.gathering import Images
from crucible.sandbox.identity import new_identity
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.machines import Machines
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import open_records
from crucible.sandbox.service.dispatch import Service
from crucible.wire.answers import Done, Ended
from crucible.wire.frames import Kind
from crucible.wire.notes import Started
from crucible.wire.requests import Exec, Verb, decode_request, verb_of

DEADLINE_S = 60.0
IMAGE = Image(
    name="base", digest="0" * 64, root=Path("/nowhere"), size_bytes=1, user="", workdir="/workspace",
    environment=(),
)  # fmt: skip


class ScriptedMachine:
    """Its guest runs `true`, and any other command until it is told to end it. It outlives every connection."""

    def __init__(self, plan: BootPlan) -> None:
        self.plan = plan
        self.handle = MachineHandle(pid=0, started="", detail="")
        self.stages = (Stage(name="restore", seconds=0.001),)
        self.has_ended = False
        self.loans = 0
        self.argv: list[tuple[bytes, ...]] = []
        self.environments: list[dict[bytes, bytes]] = []
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._playing: list[asyncio.Task[None]] = []
        self._next = 1

    async def lend(self) -> socket.socket:
        self.loans += 1
        ours, theirs = socket.socketpair()
        self._playing.append(asyncio.create_task(self._play(theirs)))
        return ours

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def console(self) -> bytes:
        return b"the kernel said this\n"

    async def pause(self) -> None:
        return

    async def resume(self) -> None:
        return

    async def stats(self) -> None:
        raise SandboxLent(self.plan.name)

    async def shutdown(self, grace_s: float) -> None:
        await self.close()

    async def close(self) -> None:
        self.end("it was stopped")
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)

    async def detach(self) -> None:
        await self.close()

    def end(self, why: str) -> None:
        self.has_ended = True
        if not self._over.done():
            self._over.set_result(why)

    async def _play(self, sock: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=sock)
        guest = ScriptedGuest(reader, writer)
        ending = asyncio.create_task(self.ended())
        talking = asyncio.create_task(self._talk(guest))
        try:
            await asyncio.wait({talking, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            talking.cancel()
            ending.cancel()
            await asyncio.gather(talking, ending, return_exceptions=True)
            writer.close()

    async def _talk(self, guest: ScriptedGuest) -> None:
        await guest.greet(next_stream=self._next)
        while True:
            frame = await guest.receive()
            if frame.kind is not Kind.OPEN:
                continue
            request = decode_request(frame.payload)
            guest.verbs[frame.stream] = verb_of(request)
            self._next = frame.stream + 1
            match verb_of(request), request:
                case Verb.PREPARE, _:
                    guest.answer(frame.stream, Done())
                case Verb.EXEC, Exec() as command:
                    self._execute(guest, frame.stream, command)
                case Verb.SHUTDOWN, _:
                    guest.answer(frame.stream, Done())
                    self.end("it was shut down")
                case _:
                    guest.fail(frame.stream, "unsupported", "not played")

    def _execute(self, guest: ScriptedGuest, stream: int, command: Exec) -> None:
        self.argv.append(tuple(command.argv))
        self.environments.append(dict(command.env))
        guest.note(stream, Started(7))
        guest.send(Kind.DATA, stream, b"up\n", OUTPUT)
        if command.argv[0] == b"true":
            guest.ended(stream, Ended(0, 0, 0, 0, 0, 0))


class ScriptedBackend:
    name = "scripted"
    is_remote = False

    def __init__(self) -> None:
        self.machines: list[ScriptedMachine] = []

    async def is_worth_trying(self) -> bool:
        return True

    async def isolation(self) -> Isolation:
        return Isolation.SOFTWARE_VM

    async def probe(self) -> Missing | None:
        return None

    async def boot(self, plan: BootPlan) -> ScriptedMachine:
        self.machines.append(ScriptedMachine(plan))
        return self.machines[-1]

    def is_alive(self, handle: MachineHandle) -> bool:
        return True

    def bury(self, directory: Path, sandbox_id: str, handle: MachineHandle | None) -> None:
        return


class ScriptedImages(Images):
    """They are not looked for."""

    async def find(self, name: str, *, is_guess: bool = False) -> Image:
        return IMAGE

    def of(self, spec: Any, backend: Any = None) -> Image:
        return IMAGE


def scripted_manager(home: Path, backend: object) -> Manager:
    machines = Machines([cast(Backend, backend)])
    manager = Manager(config=Config(home=home), records=open_records(home), machines=machines)
    # Whoever in it asks for images has been handed these.
    manager.images.__class__ = ScriptedImages
    return manager


@contextlib.asynccontextmanager
async def scripted_worker(home: Path) -> AsyncIterator[ScriptedBackend]:
    """What `microvmctl` finds when it asks for the owner of that home."""
    backend = ScriptedBackend()
    manager = scripted_manager(home, backend)
    service = Service(manager)
    tasks: set[asyncio.Task[None]] = set()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home / SOCKET_NAME))
    listener.listen()
    listener.setblocking(False)

    async def accept() -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            tasks.add(asyncio.create_task(service.serve(sock)))

    accepting = asyncio.create_task(accept())
    try:
        yield backend
    finally:
        accepting.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=DEADLINE_S)
            assert not late, "somebody has not hung up"
        await asyncio.gather(accepting, return_exceptions=True)
        await service.close()
        for machine in backend.machines:
            await machine.close()
        for held in manager.held.values():
            if held.watcher is not None:
                held.watcher.cancel()
        listener.close()
        (home / SOCKET_NAME).unlink()
        for record in manager.records.sandboxes():
            manager.records.delete(record.id)
        manager.records.close()


def plan_of(directory: Path, sandbox_id: str, *, lifetime: Any) -> BootPlan:
    return BootPlan(
        sandbox_id=sandbox_id, name="box", directory=directory, image=IMAGE, memory_mib=512, cpus=1,
        disk_mib=8192, identity=new_identity("box"), lifetime=lifetime,
    )  # fmt: skip
