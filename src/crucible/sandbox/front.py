"""The daemon's front as the owner sees it: a socket, and the process that answers there. Started again if it dies."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from crucible.client.front import SOCKET_NAME
from crucible.sandbox import log

_BACKLOG = 128
_AGAIN_S = 1.0


class Front:
    """Implements `owner.Doors`. `command` gets the listening descriptor and our lifeline as its last words."""

    def __init__(self, home: Path, command: Sequence[str]) -> None:
        self._home = home
        self._command = tuple(command)
        self._keeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        listener = _listen(self._home)
        self._keeping = asyncio.create_task(self._keep(listener))

    @property
    def is_busy(self) -> bool:
        """What was handed over is in a process of its own."""
        return False

    async def drain(self) -> None:
        """What was handed over goes on to its end."""
        (self._home / SOCKET_NAME).unlink(missing_ok=True)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _keep(self, listener: socket.socket) -> None:
        with listener:
            while True:
                ours, theirs = os.pipe()
                try:
                    process = await self._start(listener.fileno(), ours)
                    os.close(ours)
                    ours = -1
                    status = await process.wait()
                finally:
                    # Without its lifeline it takes nobody new, and ends with the last one.
                    for descriptor in (ours, theirs):
                        if descriptor >= 0:
                            os.close(descriptor)
                log.tell(f"the front ended with status {status}; it is started again")
                await asyncio.sleep(_AGAIN_S)

    async def _start(self, listener: int, lifeline: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            str(listener),
            str(lifeline),
            pass_fds=(listener, lifeline),
            stdin=asyncio.subprocess.DEVNULL,
            cwd="/",
            # Ctrl-C at a daemon in the foreground is for it, not for what others run.
            start_new_session=True,
        )


def _listen(home: Path) -> socket.socket:
    at = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        (home / SOCKET_NAME).unlink(missing_ok=True)
        sock.bind(f"/proc/self/fd/{at}/{SOCKET_NAME}")
        (home / SOCKET_NAME).chmod(0o600)
        sock.listen(_BACKLOG)
    finally:
        os.close(at)
    return sock
