"""One QEMU process: started in its cage, spoken to over QMP, ended. Knows nothing of guests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from crucible.backends.qemu import disks, ending, jail
from crucible.backends.qemu.command import BootFiles, Shape, Wiring, arguments, machine_word
from crucible.backends.qemu.disks import ROOT_NAME, DiskChain
from crucible.backends.qemu.ending import Ending
from crucible.backends.qemu.limits import find_group, forget_group
from crucible.backends.qemu.qmp import Monitor, MonitorClosed
from crucible.errors import BootFailed, GuestGone, GuestPanicked
from crucible.sandbox import processes
from crucible.sandbox.backend import MachineHandle
from crucible.values import dataclass

MONITOR_SOCKET = "monitor.sock"
AGENT_SOCKET = "agent.sock"
ERRORS_FILE = "vmm.log"
_MIGRATION_DEADLINE_S = 300.0
_LOOK_AGAIN_S = 0.02
_LAST_WORDS_S = 5.0
_MOVING = ("setup", "active", "device", "pre-switchover", "cancelling", "wait-unplug")
_CONSOLE_BYTES = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start one QEMU in a sandbox's directory: switched on, or waiting for a state if not `boot`."""

    directory: Path
    shape: Shape
    chain: DiskChain
    cage: jail.Cage
    boot: BootFiles | None
    shares_memory: bool = False
    is_held: bool = False


class Vmm:
    """A running QEMU and the line to its monitor."""

    def __init__(
        self,
        *,
        sandbox_id: str,
        directory: Path,
        handle: MachineHandle,
        caged: asyncio.Future[None] | None = None,
    ) -> None:
        self._sandbox_id = sandbox_id
        self._directory = directory
        # As errors call it; whoever knows a better one sets it.
        self.name = sandbox_id
        self.handle = handle
        self._caged = caged
        self.monitor = Monitor(connect_socket(directory, MONITOR_SOCKET))
        # Joined before the machine runs: a port that opens later tells the guest that its host left.
        self.agent = connect_socket(directory, AGENT_SOCKET)
        self._pidfd = _watchable(handle)
        self._ending: Ending | None = None
        self._console = b""
        self._ended = asyncio.Event()
        self._migration: asyncio.Future[str] | None = None
        self._watch = asyncio.create_task(self._watch_events())
        self._conclusion: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        if self._pidfd is None:
            self._end(Ending(why="its process is gone"))
        else:
            loop.add_reader(self._pidfd, self._process_ended)

    def join_agent(self) -> socket.socket:
        """Joins the agent's port anew, once the connection before it is closed: there is one at a time."""
        self.agent = connect_socket(self._directory, AGENT_SOCKET)
        return self.agent

    async def switch_on(self) -> None:
        """Lets a machine that was started to be booted run."""
        await self._wait_for_limits()
        try:
            await self.monitor.execute("cont")
        except MonitorClosed as error:
            # QEMU gave up before it could be spoken to, and its last words say why.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self.ended()
            raise BootFailed(f"The machine did not start: {self._why or error.message}") from error

    async def restore(self, state: Path) -> None:
        """Loads the device state of a saved machine over the memory it was started with."""
        with state.open("rb") as file:
            self.monitor.send("getfd", {"fdname": "state"}, fd=file.fileno())
        self.monitor.send("migrate-set-capabilities", _capabilities(shared_memory_stays=True))
        await self._migrate("migrate-incoming", {"uri": "fd:state"})
        await self._wait_for_limits()
        await self.monitor.execute("cont")

    async def load_stream(self, stream: Path) -> None:
        """Loads a whole saved stream, memory included, and waits until it is there."""
        with stream.open("rb") as file:
            self.monitor.send("getfd", {"fdname": "state"}, fd=file.fileno())
        self.monitor.send("migrate-set-capabilities", _capabilities(shared_memory_stays=False))
        await self._migrate("migrate-incoming", {"uri": "fd:state"})

    async def save(self, path: Path, *, with_memory: bool) -> None:
        """Writes the stopped machine's state; shared memory stays where it is unless asked for."""
        with path.open("xb") as file:
            self.monitor.send("getfd", {"fdname": "save"}, fd=file.fileno())
            capabilities = _capabilities(shared_memory_stays=not with_memory)
            self.monitor.send("migrate-set-capabilities", capabilities)
            self.monitor.send("migrate-set-parameters", {"max-bandwidth": 1 << 40})
            await self._migrate("migrate", {"uri": "fd:save"})
            os.fsync(file.fileno())

    async def give_up_saving(self) -> None:
        """Ends a move of the state that whoever asked for it does not wait for any more."""
        async with asyncio.timeout(_MIGRATION_DEADLINE_S):
            while (await self.monitor.execute("query-migrate")).get("status") in _MOVING:
                await self.monitor.execute("migrate_cancel")
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def proceed(self) -> None:
        """Sets a machine going that may stand still. One that has ended while nobody listened says so now."""
        status = str((await self.monitor.execute("query-status")).get("status"))
        found = ending.from_state(status, await self.console())
        if found is not None:
            self._end(found)
            raise BootFailed(f"The machine has ended: {found.why}")
        await self.monitor.execute("cont")

    async def console(self) -> bytes:
        """The last 64 KiB that the console said. QEMU tells each byte once, so what it told is kept."""
        wanted = {"device": "console", "size": _CONSOLE_BYTES, "format": "utf8"}
        with contextlib.suppress(MonitorClosed, BootFailed):
            told = str(await self.monitor.execute("ringbuf-read", wanted))
            self._console = (self._console + told.encode())[-_CONSOLE_BYTES:]
        return self._console

    def errors(self) -> str:
        with contextlib.suppress(OSError), (self._directory / ERRORS_FILE).open("rb") as file:
            return file.read(4096).decode(errors="replace").strip()
        return ""

    async def ended(self) -> str:
        await self._ended.wait()
        return self._why or "it ended"

    async def gone(self) -> GuestGone:
        """Waits for the end and gives it as the error that all get who wait for the guest."""
        why = await self.ended()
        is_panic = self._ending is not None and self._ending.is_panic
        error = GuestPanicked(self.name, why) if is_panic else GuestGone(self.name, why)
        error.console = self._console
        return error

    @property
    def has_ended(self) -> bool:
        return self._ending is not None

    @property
    def _why(self) -> str | None:
        return None if self._ending is None else self._ending.why

    async def kill(self) -> None:
        """Ends the process at once and clears what it leaves outside its directory."""
        self._end(Ending(why="it was stopped"))
        self.detach()
        bury(self._directory, self._sandbox_id, self.handle)

    def detach(self) -> None:
        self._watch.cancel()
        if self._conclusion is not None:
            self._conclusion.cancel()
        self.agent.close()
        self.monitor.close()
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    async def _wait_for_limits(self) -> None:
        """No guest runs before its VMM is in its limits group."""
        if self._caged is None:
            return
        try:
            await self._caged
        except OSError as error:
            raise BootFailed(f"The machine could not be put under its limits: {error}") from error

    async def _watch_events(self) -> None:
        while True:
            event = await self.monitor.events.get()
            if event.get("event") == "SHUTDOWN":
                reason = str(event.get("data", {}).get("reason", ""))
                # Only a reset needs the console; other ends are followed by the process's own.
                console = await self.console() if reason in ending.RESETS else b""
                self._end(ending.from_shutdown(reason, console))
                self._hang_up()
            elif event.get("event") == "MIGRATION":
                self._migrated(str(event.get("data", {}).get("status", "")))
            self.monitor.events.task_done()

    def _migrated(self, status: str) -> None:
        is_over = status in ("completed", "failed", "cancelled")
        if is_over and self._migration is not None and not self._migration.done():
            self._migration.set_result(status)

    def _process_ended(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
        self._conclusion = asyncio.create_task(self._conclude())

    async def _conclude(self) -> None:
        """What QEMU said before it went may still lie in the monitor's socket, and tells more than that it is gone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self.monitor.closed.wait()
                await self.monitor.events.join()
        if find_group(self._sandbox_id, self._directory).oom_kills():
            self._end(Ending(why="the host killed it for exceeding its memory"))
            return
        detail = self.errors()
        self._end(Ending(why=f"its VMM stopped{': ' + detail if detail else ''}"))

    def _end(self, found: Ending) -> None:
        if self._ending is None:
            self._ending = found
        self._ended.set()

    def _hang_up(self) -> None:
        """QEMU holds a machine that ended, and its sockets: nobody else would tell those who wait for the guest."""
        with contextlib.suppress(OSError):
            self.agent.shutdown(socket.SHUT_RDWR)

    async def _migrate(self, command: str, arguments: dict[str, Any]) -> None:
        """Begins to move the machine's state and waits until QEMU says how it ended."""
        self._migration = asyncio.get_running_loop().create_future()
        await self.monitor.execute(command, arguments)
        ending = asyncio.create_task(self._ended.wait())
        try:
            async with asyncio.timeout(_MIGRATION_DEADLINE_S):
                over: set[asyncio.Future[Any]] = {self._migration, ending}
                await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise BootFailed(
                f"The machine's state was not moved within {_MIGRATION_DEADLINE_S:g} s"
            ) from None
        finally:
            ending.cancel()
        if not self._migration.done():
            raise BootFailed(f"The machine ended while its state was moved: {self._why}")
        if self._migration.result() != "completed":
            raise BootFailed(f"The machine's state could not be moved: {self.errors()}")


def launch(plan: Launch, *, sandbox_id: str, program: str, memory: int) -> Vmm:
    listeners = [_listen(plan.directory, MONITOR_SOCKET), _listen(plan.directory, AGENT_SOCKET)]
    opened: list[int] = []
    info_read, info_write = os.pipe2(os.O_CLOEXEC)
    errors = os.open(
        plan.directory / ERRORS_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
    )
    try:
        wiring = _open_wiring(plan, listeners, memory, opened)
        words = arguments(
            plan.shape,
            wiring,
            sandbox_id=sandbox_id,
            boot=plan.boot,
            shares_memory=plan.shares_memory,
            is_disposable=plan.cage.lifetime == "command",
        )
        if plan.boot is not None or plan.is_held:
            words.append("-S")
        child = jail.spawn(
            plan.cage,
            [program, *words],
            descriptors=wiring.all(),
            errors=errors,
            info=info_write,
        )
        os.close(info_write)
        info_write = -1
        handle = identify(child.pid, info_read)
        # The process is watched and reaped by pidfd; Popen must not warn that it was left.
        child.returncode = 0
    finally:
        for descriptor in (*opened, errors, info_read, info_write):
            if descriptor >= 0:
                os.close(descriptor)
        for listener in listeners:
            listener.close()
    # The kernel takes 10 ms or more for this, in which QEMU can start.
    caged = asyncio.get_running_loop().run_in_executor(
        None, plan.cage.group.admit, child.pid, handle.pid
    )
    caged.add_done_callback(_seen)
    return Vmm(sandbox_id=sandbox_id, directory=plan.directory, handle=handle, caged=caged)


def connect_socket(directory: Path, name: str) -> socket.socket:
    """Connects through the directory's descriptor: the path itself may be too long for a socket."""
    at = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(f"/proc/self/fd/{at}/{name}")
    except OSError as error:
        sock.close()
        raise BootFailed(f"The machine's socket {name} does not answer: {error}") from error
    finally:
        os.close(at)
    return sock


def is_alive(handle: MachineHandle) -> bool:
    return processes.is_running(handle.pid, handle.started)


def bury(directory: Path, sandbox_id: str, handle: MachineHandle | None) -> None:
    """Ends whatever runs for a sandbox, with or without knowing its pid, and clears its sockets."""
    if handle is not None:
        processes.kill_and_wait(handle.pid, handle.started)
        wrapper = json.loads(handle.detail or "{}")
        if wrapper:
            processes.kill_and_wait(wrapper["pid"], wrapper["started"])
    else:
        for pid in processes.find_by_word(machine_word(sandbox_id)):
            processes.kill_and_wait(pid, processes.start_mark(pid) or "")
    find_group(sandbox_id, directory).remove()
    forget_group(directory)
    for name in (MONITOR_SOCKET, AGENT_SOCKET):
        with contextlib.suppress(OSError):
            (directory / name).unlink()


def identify(wrapper_pid: int, info: int) -> MachineHandle:
    """bubblewrap tells the pid of what it started; killing that one ends everything inside."""
    text = b""
    while not text.rstrip().endswith(b"}"):
        data = os.read(info, 4096)
        if not data:
            break
        text += data
    try:
        pid = int(json.loads(text)["child-pid"])
    except (ValueError, KeyError):
        os.waitpid(wrapper_pid, 0)
        raise BootFailed(
            "The machine's cage could not be built", hint="Run `crucible doctor`"
        ) from None
    wrapper = {"pid": wrapper_pid, "started": processes.start_mark(wrapper_pid) or ""}
    return MachineHandle(
        pid=pid, started=processes.start_mark(pid) or "", detail=json.dumps(wrapper)
    )


def _listen(directory: Path, name: str) -> socket.socket:
    at = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            (directory / name).unlink()
        sock.bind(f"/proc/self/fd/{at}/{name}")
        (directory / name).chmod(0o600)
        sock.listen(4)
    finally:
        os.close(at)
    return sock


def _open_wiring(
    plan: Launch, listeners: list[socket.socket], memory: int, opened: list[int]
) -> Wiring:
    def take(path: Path, flags: int = os.O_RDONLY) -> int:
        opened.append(os.open(path, flags | os.O_CLOEXEC))
        return opened[-1]

    frozen = [take(layer) for layer in plan.chain.layers[:-1]]
    return Wiring(
        memory=memory,
        monitor=listeners[0].fileno(),
        agent=listeners[1].fileno(),
        root=take(plan.directory / ROOT_NAME),
        exchange=take(disks.make_exchange(plan.directory)),
        disks=[*frozen, take(plan.chain.top, os.O_RDWR)],
        kernel=take(plan.boot.kernel) if plan.boot else -1,
        initramfs=take(plan.boot.initramfs) if plan.boot else -1,
    )


def _seen(caged: asyncio.Future[None]) -> None:
    """A machine that is killed before it runs takes its group away from under whoever fills it."""
    if not caged.cancelled():
        caged.exception()


def _watchable(handle: MachineHandle) -> int | None:
    try:
        pidfd = os.pidfd_open(handle.pid)
    except OSError:
        return None
    if not is_alive(handle):
        os.close(pidfd)
        return None
    return pidfd


def _capabilities(*, shared_memory_stays: bool) -> dict[str, Any]:
    """Both ends of a move must agree on whether memory that is shared is part of it."""
    return {
        "capabilities": [
            {"capability": "x-ignore-shared", "state": shared_memory_stays},
            {"capability": "events", "state": True},
        ]
    }
