"""The one program per user that holds the running sandboxes and serves any number of clients.

It is started by the first command that needs it and leaves when there is nothing to hold. When it
dies, the machines live on; the next one takes them over.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from crucible.client.connection import Owner as Client
from crucible.client.protocol import SOCKET_NAME
from crucible.errors import SandboxError, StateDamaged
from crucible.sandbox.expiry import Expiry
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.reconcile import bury_dead_temporaries, remove_strays
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.dispatch import Service
from crucible.sandbox.takeover import take_all_over

LOCK_NAME = "owner.lock"
_BACKLOG = 128
_ACCEPT_AGAIN_S = 0.5
_SUCCESSION_S = 5.0
_LOOK_AGAIN_S = 0.02


def hold_lock(home: Path) -> int | None:
    """Our right to be the owner, as a descriptor; None if another process is it.

    One that has stopped listening is on its way out, and is waited for.
    """
    path = home / LOCK_NAME
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateDamaged(
            f"{path} cannot be used: {error.strerror}", hint="Move it away and try again"
        ) from None
    deadline = time.monotonic() + _SUCCESSION_S
    while not _is_locked(descriptor):
        if _is_listening(home) or time.monotonic() > deadline:
            os.close(descriptor)
            return None
        time.sleep(_LOOK_AGAIN_S)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_listening(home: Path) -> bool:
    connection = Client(home).connect_if_running()
    if connection is None:
        return False
    connection.close()
    return True


class Doors(Protocol):
    """Further ways in, beside the owner's own socket. An owner that has them stays until it is told to leave."""

    async def open(self) -> None:
        """Called when the machines of a holder before us are in our hands."""
        ...

    async def drain(self) -> None:
        """Lets nobody in any more; returns when those inside are served, or have been given up."""
        ...


class Owner:
    def __init__(
        self,
        manager: Manager,
        *,
        idle_s: float,
        doors: Callable[[Service], Doors] | None = None,
    ) -> None:
        self._manager = manager
        self._service = Service(manager)
        self._doors = None if doors is None else doors(self._service)
        self._idle_s = idle_s
        self._clients: set[asyncio.Task[None]] = set()
        self._leaving = asyncio.Event()
        self._ready = asyncio.Event()
        self._service.extra["ping"] = self._ping
        self._service.extra["shutdown"] = self._shutdown

    async def serve(self) -> None:
        """Until told to leave, or until nothing has been held or asked for some time."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leaving.set)
        listener = self._listen()
        try:
            accepting = asyncio.create_task(self._accept(listener))
            await self._take_over()
            if self._doors is not None:
                await self._doors.open()
            self._ready.set()
            expiry = Expiry(self._manager)
            expiring = asyncio.create_task(expiry.run())
            while not self._leaving.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._idle_s):
                        await self._leaving.wait()
                is_idle = not self._manager.held and not self._clients and not expiry.is_busy
                if is_idle and self._doors is None:
                    break
            accepting.cancel()
            expiring.cancel()
        finally:
            (self._manager.config.home / SOCKET_NAME).unlink(missing_ok=True)
            listener.close()
            if self._doors is not None:
                await self._doors.drain()
        await self._leave()

    async def _take_over(self) -> None:
        manager = self._manager
        bury_dead_temporaries(manager.records, list(manager.backends))
        self._service.snapshots.settle()
        await take_all_over(manager)
        for held in list(manager.held.values()):
            if held.record.state == "running":
                await self._take_up_commands(held)
        remove_strays(manager.config.home, manager.records, list(manager.backends))

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
        await self._manager.let_all_go()

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
            "has_doors": self._doors is not None,
        }

    async def _shutdown(
        self, request: dict[str, object], client: Conversation
    ) -> dict[str, object]:
        self._leaving.set()
        return {"pid": os.getpid()}
