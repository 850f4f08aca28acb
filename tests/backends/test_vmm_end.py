"""A VMM that goes: what it said last is heard, in whatever order its sockets and its process are seen to end."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crucible.backends.qemu.vmm import AGENT_SOCKET, MONITOR_SOCKET, Vmm
from crucible.sandbox import processes
from crucible.sandbox.backend import MachineHandle

TOLD_TO_STOP = {"event": "SHUTDOWN", "data": {"guest": False, "reason": "host-signal"}}


class Scripted:
    """A process and the other ends of its sockets: all of a VMM that its holder sees."""

    def __init__(self, directory: Path) -> None:
        self._listeners = [_listen(directory / name) for name in (MONITOR_SOCKET, AGENT_SOCKET)]
        self._process = subprocess.Popen(["sleep", "600"])
        self._directory = directory

    def join(self) -> tuple[Vmm, socket.socket, socket.socket]:
        """The holder's side, and the VMM's ends of the monitor's line and the guest's."""
        pid = self._process.pid
        handle = MachineHandle(pid=pid, started=processes.start_mark(pid) or "", detail="")
        vmm = Vmm(sandbox_id="scripted", directory=self._directory, handle=handle)
        monitor, agent = (listener.accept()[0] for listener in self._listeners)
        return vmm, monitor, agent

    def kill(self) -> None:
        """Over when this returns; it can be seen, and nobody has looked yet."""
        self._process.kill()
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for listener in self._listeners:
            listener.close()


@contextmanager
def scripted(directory: Path) -> Iterator[Scripted]:
    found = Scripted(directory)
    try:
        yield found
    finally:
        found.close()


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


@pytest.mark.parametrize("asks_meanwhile", [False, True], ids=["silent", "asking"])
async def test_its_last_event_counts_although_its_process_is_seen_to_be_gone(
    run: object, tmp_path: Path, asks_meanwhile: bool
) -> None:
    with scripted(tmp_path) as peer:
        vmm, monitor, agent = peer.join()
        monitor.sendall(json.dumps(TOLD_TO_STOP).encode() + b"\n")
        for end in (monitor, agent):
            end.close()
        peer.kill()
        if asks_meanwhile:
            vmm.monitor.send("query-status")
        async with asyncio.timeout(60):
            assert await vmm.ended() == "its VMM was told to stop"
        vmm.detach()


async def test_one_that_says_nothing_has_just_stopped(run: object, tmp_path: Path) -> None:
    with scripted(tmp_path) as peer:
        vmm, monitor, agent = peer.join()
        for end in (monitor, agent):
            end.close()
        peer.kill()
        async with asyncio.timeout(60):
            assert await vmm.ended() == "its VMM stopped"
        vmm.detach()


async def test_a_line_that_stays_open_holds_nobody_up(
    run: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crucible.backends.qemu.vmm._LAST_WORDS_S", 0.01)
    with scripted(tmp_path) as peer:
        vmm, monitor, agent = peer.join()
        peer.kill()
        async with asyncio.timeout(60):
            assert await vmm.ended() == "its VMM stopped"
        vmm.detach()
        for end in (monitor, agent):
            end.close()
