"""FAIL of the guest, said as one plain sentence with the values that were asked for."""

from __future__ import annotations

from typing import Final

from crucible.errors import CommandNotExecutable, CommandNotFound, GuestRefused
from crucible.wire.answers import Fail
from crucible.wire.requests import (
    Dial,
    Exec,
    ListDir,
    MakeDir,
    Read,
    RefuseAsk,
    Remove,
    Rename,
    Request,
    Stat,
    Take,
    TarIn,
    TarOut,
    Tree,
    Watch,
    Write,
)

SHOWN_CHARACTERS: Final = 300
_OF_PATHS: Final = {
    "not-found": "{} does not exist in the sandbox",
    "exists": "{} exists already in the sandbox",
    "not-a-directory": "{} is not a directory in the sandbox",
    "is-a-directory": "{} is a directory in the sandbox",
    "permission": "The sandbox does not permit this on {}",
}
_OF_ALL: Final = {
    "not-prepared": "The sandbox was not prepared yet",
    "frozen": "The sandbox is frozen",
    "no-space": "The sandbox's disk is full",
}


def refusal(request: Request, fail: Fail) -> GuestRefused:
    if fail.code in _OF_ALL:
        return GuestRefused(fail.code, _OF_ALL[fail.code])
    match request:
        case Exec():
            return _of_exec(request, fail)
        case Dial(port=port):
            return GuestRefused(
                fail.code, f"Nothing took the connection to port {port} in the sandbox"
            )
        case Take(number=number) | RefuseAsk(number=number):
            return GuestRefused(fail.code, f"Connection {number} of the sandbox is over")
        case Read(path=path) | Write(path=path) | Stat(path=path) | ListDir(path=path):
            return _of_path(path, fail)
        case Remove(path=path) | MakeDir(path=path) | Rename(old=path):
            return _of_path(path, fail)
        case Watch(path=path):
            return _of_path(path, fail)
        case TarOut(root=path) | TarIn(root=path) | Tree(root=path):
            return _of_path(path, fail)
        case _:
            return GuestRefused(fail.code, _guest_says(fail))


def shown(value: bytes | str) -> str:
    """Foreign text as it may stand in a message: short, and nothing that a terminal obeys."""
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
    cut = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in cut)


def _of_exec(request: Exec, fail: Fail) -> GuestRefused:
    if not request.argv:
        return GuestRefused(fail.code, _guest_says(fail))
    program = shown(request.argv[0])
    match fail.code:
        case "not-found":
            return CommandNotFound(fail.code, f"The sandbox has no command '{program}'")
        case "not-executable":
            return CommandNotExecutable(fail.code, f"'{program}' cannot be executed in the sandbox")
        case "no-such-user":
            return GuestRefused(fail.code, f"The sandbox has no user '{shown(request.user)}'")
        case "no-such-workdir":
            return GuestRefused(
                fail.code, f"{shown(request.workdir)} is not a directory in the sandbox"
            )
        case _:
            return GuestRefused(fail.code, _guest_says(fail))


def _of_path(path: bytes, fail: Fail) -> GuestRefused:
    sentence = _OF_PATHS.get(fail.code)
    if sentence is None:
        return GuestRefused(fail.code, f"{shown(path)}: {_guest_says(fail)}")
    return GuestRefused(fail.code, sentence.format(shown(path)))


def _guest_says(fail: Fail) -> str:
    return f"The sandbox refused ({fail.code}): {shown(fail.message)}"
