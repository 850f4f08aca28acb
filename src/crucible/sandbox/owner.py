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
from pathlib import Path

from crucible.client.protocol import SOCKET_NAME
from crucible.sandbox.manager import Manager
from crucible.sandbox.reconcile import bury_dead_temporaries, remove_strays
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.dispatch import Service

LOCK_NAME = "owner.lock"
_BACKLOG = 128


def hold_lock(home: Path) -> int | None:
    """Our right to be the owner, as a descriptor; None if another process has it."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


class Owner:
    def __init__(self, manager: Manager, *, idle_s: float) -> None:
        self._manager = manager
        self._service = Service(manager)
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
            self._ready.set()
            while not self._leaving.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._idle_s):
                        await self._leaving.wait()
                if not self._manager.held and not self._clients:
                    break
            accepting.cancel()
        finally:
            (self._manager.config.home / SOCKET_NAME).unlink(missing_ok=True)
            listener.close()
        await self._leave()

    async def _take_over(self) -> None:
        manager = self._manager
        bury_dead_temporaries(manager.records, list(manager.backends))
        self._service.snapshots.settle()
        for record in manager.records.sandboxes():
            if record.is_temporary:
                continue
            with contextlib.suppress(Exception):
                await manager.adopt(record)
            if (held := manager.held.get(record.id)) is not None and held.record.state == "running":
                await self._service.commands.take_over(held)
        remove_strays(manager.config.home, manager.records)

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
            sock, _ = await loop.sock_accept(listener)
            task = asyncio.create_task(self._serve_one(sock))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve_one(self, sock: socket.socket) -> None:
        await self._ready.wait()
        await self._service.serve(sock)

    async def _ping(self, request: dict[str, object], client: Conversation) -> dict[str, object]:
        return {"pid": os.getpid(), "held": len(self._manager.held)}

    async def _shutdown(
        self, request: dict[str, object], client: Conversation
    ) -> dict[str, object]:
        self._leaving.set()
        return {"pid": os.getpid()}
