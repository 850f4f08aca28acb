"""The shortest way to a running daemon: what was typed goes to it before anything is parsed or loaded.

The daemon's front gets our words, variables, directory and standard descriptors, does the rest in a process of its
own, and tells how that ended. Whatever speaks against it, we do the work ourselves.

The request is MAGIC, a length (4 bytes, big-endian) and that many bytes: fields that end with NUL. With MAGIC come
four descriptors: standard input, output, errors, and the working directory. The answer is GO with a pidfd, or NOT;
after GO comes how the process ended, as `wait` tells it (4 bytes).
"""

from __future__ import annotations

import _socket
import os

# This comes before it is known whether a daemon runs: `socket` and `signal` would cost more than the rest of the way.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

SOCKET_NAME = "front.sock"
MAGIC = b"crucible-front-1"
GO = b"G"
NOT = b"N"
LENGTH_BYTES = 4
# What changes how the interpreter reads and writes text; it was decided when the front started.
TEXT_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS")

_LONGEST_PATH = 100
_FORWARDED = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGWINCH, _signal.SIGUSR1)
_RIGHTS_BYTES = 64


class FrontLost(Exception):
    """The daemon ended while it was at work for us."""


def hand_over(words: list[str], home: str, package: str) -> int | None:
    """How the work ended, as `wait` tells it; None if it has not begun and is ours to do."""
    path = os.path.join(home, SOCKET_NAME)  # noqa: PTH118 - pathlib costs more than the rest
    if len(os.fsencode(path)) > _LONGEST_PATH or not _is_plain():
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _send(connection, _request(words, package), (0, 1, 2, here))
        finally:
            os.close(here)
        answer, ancillary, _, _ = connection.recvmsg(1, _RIGHTS_BYTES)
    except OSError:
        connection.close()
        return None
    if answer != GO or not ancillary:
        connection.close()
        return None
    return _wait(connection, int.from_bytes(ancillary[0][2][:4], "little"))


def request_fields(payload: bytes) -> tuple[str, int, dict[bytes, bytes], list[str]]:
    """The package, the mask of new files' modes, the variables and the words of a request. Raises ValueError."""
    if not payload.endswith(b"\0"):
        raise ValueError("a field has no end")
    package, umask, count, *rest = payload[:-1].split(b"\0")
    variables, words = rest[: int(count)], rest[int(count) :]
    if len(variables) != int(count) or not 0 <= int(umask) <= 0o777:
        raise ValueError("fields are missing")
    pairs = (variable.split(b"=", 1) for variable in variables)
    return os.fsdecode(package), int(umask), dict(pairs), [os.fsdecode(word) for word in words]


def _is_plain() -> bool:
    """A terminal's keys belong to the process that is in its foreground; the front's is not."""
    try:
        for descriptor in (0, 1, 2):
            os.fstat(descriptor)
        return not os.isatty(0)
    except OSError:
        return False


def _request(words: list[str], package: str) -> bytes:
    umask = os.umask(0o077)
    os.umask(umask)
    variables = [key + b"=" + value for key, value in os.environb.items()]
    fields = [os.fsencode(package), b"%d" % umask, b"%d" % len(variables), *variables]
    fields += [os.fsencode(word) for word in words]
    return b"\0".join(fields) + b"\0"


def _send(connection: _socket.socket, request: bytes, descriptors: tuple[int, ...]) -> None:
    rights = b"".join(number.to_bytes(4, "little") for number in descriptors)
    connection.sendmsg([MAGIC], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    connection.sendall(len(request).to_bytes(LENGTH_BYTES, "big") + request)


def _wait(connection: _socket.socket, process: int) -> int:
    def forward(number: int, frame: object) -> None:
        _tell(process, number)

    def stand_still(number: int, frame: object) -> None:
        _tell(process, _signal.SIGSTOP)
        os.kill(os.getpid(), _signal.SIGSTOP)
        _tell(process, _signal.SIGCONT)

    for number in _FORWARDED:
        # What whoever started us ignores, as nohup does, stays ignored.
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, forward)
    _signal.signal(_signal.SIGTSTP, stand_still)
    told = b""
    while len(told) < 4:
        data = connection.recv(4 - len(told))
        if not data:
            raise FrontLost
        told += data
    return int.from_bytes(told, "big")


def _tell(process: int, number: int) -> None:
    try:
        _signal.pidfd_send_signal(process, number)
    except OSError:
        return  # it has ended, and we are about to be told
