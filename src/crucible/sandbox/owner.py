"""The one program per user that holds the running sandboxes and serves any number of clients.

It is started by the first command that needs it and leaves when there is nothing to hold; or by
`crucible daemon start`, and stays. When it dies, the machines live on; the next one takes them over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from crucible.client.connection import LOG_NAME
from crucible.client.protocol import SOCKET_NAME
from crucible.errors import SandboxError
from crucible.sandbox import log
from crucible.sandbox.expiry import Expiry
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.reconcile import bury_dead_temporaries, remove_strays
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.dispatch import Service
from crucible.sandbox.spec import SandboxSpec
from crucible.sandbox.takeover import take_all_over

_BACKLOG = 128
_ACCEPT_AGAIN_S = 0.5


class Doors(Protocol):
    """Further ways in, beside the owner's own socket."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody is being served: an owner that is not told to leave stays for them."""
        ...

    async def open(self) -> None:
        """Called when the machines of a holder before us are in our hands."""
        ...

    async def drain(self) -> None:
        """Lets nobody in any more; returns when those inside are served, or have been given up."""
        ...


DoorsLater = Callable[[Service], Awaitable[Doors]]


class Owner:
    """`idle_s` None: it stays until it is told to leave. `doors_later`: opened when somebody first asks for them,
    because to load them takes longer than most that is asked of an owner.
    """

    def __init__(
        self,
        manager: Manager,
        *,
        idle_s: float | None,
        drain_s: float = 0.0,
        doors: Callable[[Service], Doors] | None = None,
        front: Doors | None = None,
        doors_later: DoorsLater | None = None,
    ) -> None:
        self._manager = manager
        self._service = Service(manager)
        self._idle_s = idle_s
        self._drain_s = drain_s
        self._doors = None if doors is None else doors(self._service)
        self._all_doors = [door for door in (self._doors, front) if door is not None]
        self._doors_later = None if doors is not None else doors_later
        self._opening = asyncio.Lock()
        self._began = time.time()
        self._clients: set[asyncio.Task[None]] = set()
        self._leaving = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._ready = asyncio.Event()
        self._service.extra["ping"] = self._ping
        self._service.extra["status"] = self._status
        self._service.extra["shutdown"] = self._shutdown
        self._service.extra["doors"] = self._open_doors

    async def serve(self) -> None:
        """Until told to leave, or until nothing has been held or asked for some time."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_leave)
        listener = self._listen()
        try:
            accepting = asyncio.create_task(self._accept(listener))
            await self._take_over()
            for door in self._all_doors:
                await door.open()
            self._ready.set()
            expiry = Expiry(self._manager)
            tasks = [accepting, asyncio.create_task(expiry.run())]
            tasks.append(asyncio.create_task(log.keep_short(self._manager.config.home / LOG_NAME)))
            if self._manager.opening.pool is not None:
                tasks.append(asyncio.create_task(self._manager.opening.pool.run(SandboxSpec())))
            self._tell(f"holds {len(self._manager.held)} sandboxes")
            while not self._leaving.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._idle_s):
                        await self._leaving.wait()
                if self._idle_s is not None and self._is_idle(expiry):
                    break
            await _cancel(tasks)
        finally:
            (self._manager.config.home / SOCKET_NAME).unlink(missing_ok=True)
            listener.close()
        self._tell(f"leaves; {len(self._manager.held)} sandboxes live on")
        await self._drain()
        await self._leave()

    def _told_to_leave(self) -> None:
        """Twice is for those who do not want to wait."""
        if self._leaving.is_set():
            self._hurrying.set()
        self._leaving.set()

    def _is_idle(self, expiry: Expiry) -> bool:
        is_used = bool(self._manager.held or self._clients or expiry.is_busy)
        return not is_used and not any(door.is_busy for door in self._all_doors)

    async def _drain(self) -> None:
        """What would be lost with us gets some time to end. Commands in named sandboxes go on without us."""
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(self._service.idle())]
        waiting += [asyncio.create_task(door.drain()) for door in self._all_doors]
        hurry: asyncio.Task[Any] = asyncio.create_task(self._hurrying.wait())
        drained: asyncio.Task[Any] = asyncio.create_task(_all_of(waiting))
        await asyncio.wait(
            {drained, hurry}, timeout=self._drain_s, return_when=asyncio.FIRST_COMPLETED
        )
        await _cancel([drained, hurry, *waiting])

    async def _take_over(self) -> None:
        manager = self._manager
        bury_dead_temporaries(manager.records, manager.machines)
        self._service.snapshots.settle()
        await take_all_over(manager)
        for held in list(manager.held.values()):
            if held.record.state == "running":
                await self._take_up_commands(held)
        remove_strays(manager.config.home, manager.records, manager.machines)

    async def _take_up_commands(self, held: Held) -> None:
        """A guest that does not tell its commands is still to be stopped or looked at."""
        try:
            await self._service.executions.take_over(held)
        except SandboxError:
            traceback.print_exc()

    async def _leave(self) -> None:
        if self._clients:
            for client in self._clients:
                client.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)
        await self._service.close()
        await self._manager.hands.let_all_go()

    def _listen(self) -> socket.socket:
        home = self._manager.config.home
        at = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            (home / SOCKET_NAME).unlink(missing_ok=True)
            sock.bind(f"/proc/self/fd/{at}/{SOCKET_NAME}")
            (home / SOCKET_NAME).chmod(0o600)
            sock.listen(_BACKLOG)
            sock.setblocking(False)
        finally:
            os.close(at)
        return sock

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:
                # Out of descriptors, most likely; others will be given back.
                traceback.print_exc()
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            task = asyncio.create_task(self._serve_one(sock))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve_one(self, sock: socket.socket) -> None:
        await self._ready.wait()
        await self._service.serve(sock)

    async def _ping(self, request: dict[str, object], client: Conversation) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "held": len(self._manager.held),
            "is_daemon": self._idle_s is None,
            "has_doors": self._doors is not None,
        }

    async def _status(self, request: dict[str, object], client: Conversation) -> dict[str, object]:
        manager = self._manager
        return {
            **await self._ping(request, client),
            "since": self._began,
            "busy": self._service.unfinished,
            "pool": None if manager.opening.pool is None else manager.opening.pool.facts(),
            "queue": None
            if manager.opening.turnstile is None
            else manager.opening.turnstile.facts(),
            "stages": {} if manager.opening.figures is None else manager.opening.figures.facts(),
        }

    async def _open_doors(
        self, request: dict[str, object], client: Conversation
    ) -> dict[str, object]:
        """Answers when callers over HTTP can come in at the socket in the state directory."""
        async with self._opening:
            if self._doors_later is not None and not self._leaving.is_set():
                door = await self._doors_later(self._service)
                await door.open()
                self._all_doors.append(door)
                self._doors_later = None
        return {"pid": os.getpid()}

    async def _shutdown(
        self, request: dict[str, object], client: Conversation
    ) -> dict[str, object]:
        self._told_to_leave()
        return {"pid": os.getpid()}

    def _tell(self, what: str) -> None:
        if self._idle_s is None:
            log.tell(f"daemon {os.getpid()} {what}")


async def _all_of(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
