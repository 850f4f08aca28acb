"""The daemon's front: a process with the command line loaded, which forks for every `crucible run` that is handed over.

Each fork is a command line of its own: its caller's words, variables, directory and descriptors, and nothing of
another's. `client/front.py` is the caller.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from crucible.cli.main import find_command, main
from crucible.client import front

PACKAGE = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - as the caller tells it
_LARGEST_REQUEST = 16 << 20
_REQUEST_S = 10.0
_MOST_AT_ONCE = 256
_DESCRIPTORS = 4
_CREDENTIALS = struct.Struct("3i")
_CHUNK = 1 << 16


class Caller(NamedTuple):
    connection: socket.socket
    pid: int
    pidfd: int


class Front:
    """Lives as long as the daemon, which holds the other end of `lifeline`."""

    def __init__(self, listener: socket.socket, lifeline: int) -> None:
        self._listener = listener
        self._lifeline = lifeline
        self._callers: list[Caller] = []

    def serve(self) -> None:
        """Without its lifeline it takes nobody new, and ends with the last that it took."""
        is_open = True
        while is_open or self._callers:
            poller = select.poll()
            if is_open:
                poller.register(self._lifeline, select.POLLIN)
            if is_open and len(self._callers) < _MOST_AT_ONCE:
                poller.register(self._listener, select.POLLIN)
            for caller in self._callers:
                poller.register(caller.pidfd, select.POLLIN)
                poller.register(caller.connection, select.POLLRDHUP)
            ready = {descriptor for descriptor, _ in poller.poll()}
            if self._lifeline in ready:
                is_open = False
                self._listener.close()
                continue
            for caller in list(self._callers):
                if caller.pidfd in ready:
                    self._ended(caller)
                elif caller.connection.fileno() in ready:
                    self._left(caller)
            if is_open and self._listener.fileno() in ready:
                self._accept()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(packed)[1] != os.getuid():
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            self._become(connection)
        self._callers.append(Caller(connection, pid, os.pidfd_open(pid)))

    def _become(self, connection: socket.socket) -> NoReturn:
        status = 125
        try:
            self._listener.close()
            os.close(self._lifeline)
            for caller in self._callers:
                caller.connection.close()
                os.close(caller.pidfd)
            status = _work(connection)
        finally:
            os._exit(status)

    def _ended(self, caller: Caller) -> None:
        _, status = os.waitpid(caller.pid, 0)
        with contextlib.suppress(OSError):
            caller.connection.sendall(status.to_bytes(4, "big"))
        self._callers.remove(caller)
        caller.connection.close()
        os.close(caller.pidfd)

    def _left(self, caller: Caller) -> None:
        """What a terminal does to the programs in it when it goes."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(caller.pidfd, signal.SIGHUP)
            signal.pidfd_send_signal(caller.pidfd, signal.SIGCONT)
        # It is told once; its end is still waited for.
        self._callers[self._callers.index(caller)] = caller._replace(connection=_deaf())


def _deaf() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def _work(connection: socket.socket) -> int:
    connection.settimeout(_REQUEST_S)
    descriptors: list[int] = []
    try:
        package, umask, variables, words = _receive(connection, descriptors)
    except (OSError, ValueError):
        connection.sendall(front.NOT)
        return 0
    theirs = [variables.get(name.encode()) for name in front.TEXT_VARIABLES]
    ours = [os.environb.get(name.encode()) for name in front.TEXT_VARIABLES]
    if package != PACKAGE or theirs != ours:
        connection.sendall(front.NOT)
        return 0
    _take_place(descriptors, umask, variables)
    pidfd = os.pidfd_open(os.getpid())
    socket.send_fds(connection, [front.GO], [pidfd])
    os.close(pidfd)
    connection.close()
    sys.argv = ["crucible", *words]
    status = main(words)
    sys.stdout.flush()
    return status


def _receive(
    connection: socket.socket, descriptors: list[int]
) -> tuple[str, int, dict[bytes, bytes], list[str]]:
    magic, found, _, _ = socket.recv_fds(connection, len(front.MAGIC), _DESCRIPTORS)
    descriptors += found
    if magic != front.MAGIC or len(found) != _DESCRIPTORS:
        raise ValueError("no request of this kind")
    length = int.from_bytes(_exactly(connection, front.LENGTH_BYTES), "big")
    if length > _LARGEST_REQUEST:
        raise ValueError("the request is too large")
    return front.request_fields(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(_CHUNK, count - len(data)))
        if not piece:
            raise ValueError("the request ends too early")
        data += piece
    return bytes(data)


def _take_place(descriptors: Sequence[int], umask: int, variables: dict[bytes, bytes]) -> None:
    os.fchdir(descriptors[3])
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.umask(umask)
    os.environb.clear()
    os.environb.update(variables)
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdin = open(0, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115


def load() -> None:
    """What a `run` needs, before anybody waits for it."""
    from crucible.cli import joining, progress, render, service, specs  # noqa: F401
    from crucible.client import command, connection, exchange  # noqa: F401
    from crucible.images import catalog  # noqa: F401
    from crucible.project import detection, languages, settings  # noqa: F401
    from crucible.sandbox import spec  # noqa: F401

    find_command("run")
    gc.collect()
    gc.freeze()


def run(words: Sequence[str]) -> None:
    listener, lifeline = map(int, words)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    load()
    with socket.socket(fileno=listener) as sock:
        Front(sock, lifeline).serve()


if __name__ == "__main__":
    run(sys.argv[1:])
