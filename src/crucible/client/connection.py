"""The way to the owner of this user's sandboxes: connects to it, and starts it when it is not there."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from crucible.client.protocol import SOCKET_NAME
from crucible.errors import CrucibleError, HostDiskFull, OwnerUnreachable

if TYPE_CHECKING:
    import subprocess

LOG_NAME = "owner.log"
START_DEADLINE_S = 60.0
LOSER_GRACE_S = 30.0
MOST_STARTS = 3
RETRY_S = 0.02
LOG_TAIL_BYTES = 2000
LARGEST_LOG_BYTES = 1 << 20
LARGEST_ERROR_BYTES = 1 << 16

# The kernel takes 107 bytes; longer paths go by way of a descriptor of the directory.
_LONGEST_PATH = 100


class Owner:
    """Each connection carries one request."""

    def __init__(self, home: Path, command: Sequence[str] = ()) -> None:
        self._home = home
        self._command = tuple(command) or (sys.executable, "-P", "-m", "crucible.owner_main")

    def connect(self) -> socket.socket:
        """Starts the owner if nobody listens. Several clients may do so at once: one owner wins."""
        connection = self.connect_if_running()
        return connection if connection is not None else self._start_and_connect()

    def connect_if_running(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short_path(self._home / SOCKET_NAME) as path:
                connection.connect(path)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            connection.close()
            return None
        except OSError as error:
            connection.close()
            raise OwnerUnreachable(
                f"The socket {self._home / SOCKET_NAME} cannot be reached: {error.strerror}",
                hint="It belongs to the user who runs the sandboxes; check CRUCIBLE_HOME",
            ) from None
        return connection

    def _start_and_connect(self) -> socket.socket:
        for _ in range(MOST_STARTS):
            connection = self._start_and_wait()
            if connection is not None:
                return connection
        raise self._unreachable()

    def _start_and_wait(self) -> socket.socket | None:
        """None if the owner that was started was killed before it listened: then nobody else will come."""
        process = self.launch()
        deadline = time.monotonic() + START_DEADLINE_S
        is_gone = False
        try:
            while time.monotonic() < deadline:
                connection = self.connect_if_running()
                if connection is not None:
                    return connection
                if not is_gone and (status := process.poll()) is not None:
                    if status < 0:
                        return None
                    raise_what_it_told(process)
                    # Another may have won the race and still be on its way to its socket.
                    is_gone = True
                    deadline = min(deadline, time.monotonic() + LOSER_GRACE_S)
                time.sleep(RETRY_S)
            raise self._unreachable()
        finally:
            # It lives on after us, and is init's to wait for.
            process.returncode = 0
            if process.stdout is not None:
                process.stdout.close()

    def _unreachable(self) -> OwnerUnreachable:
        return OwnerUnreachable(
            f"The program that holds the sandboxes did not start{self._last_words()}",
            hint=f"Read {self._home / LOG_NAME}, and run `crucible doctor`",
        )

    def launch(self) -> subprocess.Popen[bytes]:
        """A new process, whoever else may be there. It lives on after us."""
        import subprocess

        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._open_log() as log:
                return subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd="/",
                    env={**os.environ, "CRUCIBLE_HOME": str(self._home)},
                    start_new_session=True,
                )
        except OSError as error:
            raise _not_started(self._home, error) from None

    def _open_log(self) -> BinaryIO:
        path = self._home / LOG_NAME
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size > LARGEST_LOG_BYTES:
                path.replace(path.with_suffix(".log.old"))
        return path.open("ab")

    def _last_words(self) -> str:
        try:
            with (self._home / LOG_NAME).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        spoken = [line.strip() for line in lines if line.strip()]
        return f": {spoken[-1]}" if spoken else ""


def raise_what_it_told(process: subprocess.Popen[bytes]) -> None:
    """An owner that cannot begin says why before it ends; one that another was faster than says nothing."""
    told = process.stdout.read(LARGEST_ERROR_BYTES) if process.stdout is not None else b""
    if told:
        from crucible.client.answers import service_error
        from crucible.client.protocol import parse_json

        raise service_error(parse_json(told))


def _not_started(home: Path, error: OSError) -> CrucibleError:
    if error.errno == errno.ENOSPC:
        return HostDiskFull(str(home))
    return OwnerUnreachable(
        f"The program that holds the sandboxes could not be started: {error}",
        hint=f"Check that {home} can be written, or set CRUCIBLE_HOME",
    )


@contextlib.contextmanager
def _short_path(path: Path) -> Iterator[str]:
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
