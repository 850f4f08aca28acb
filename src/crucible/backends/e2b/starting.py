"""How a command is begun inside: a shell looks whether it can be, says so, and becomes it.

The service would tell a program that is missing, a directory that is missing and an end with status 127 alike.
"""

from __future__ import annotations

import secrets

from crucible.errors import CommandNotExecutable, CommandNotFound, GuestRefused
from crucible.sandbox.session import Command
from crucible.values import dataclass

SHELL = "/bin/sh"
_SCRIPT = r"""
n=$1 w=$2 m=$3; shift 3
say() { printf '%s' "$n$1;" >&2; }
if [ -n "$w" ]; then
  [ "$m" = 0 ] || mkdir -p -- "$w" 2>/dev/null
  case $w in /*) cd -- "$w" 2>/dev/null ;; *) false ;; esac || { say no-such-workdir; exit 1; }
fi
f= x=
case $1 in
*/*) [ ! -e "$1" ] || x=1; [ ! -f "$1" ] || [ ! -x "$1" ] || f=1 ;;
?*) IFS=:; for d in $PATH; do
      [ ! -f "$d/$1" ] || { x=1; [ ! -x "$d/$1" ] || f=1; }
    done; unset IFS ;;
esac
k=not-found; [ -z "$x" ] || k=not-executable
[ -n "$f" ] || { say "$k"; exit 1; }
say ok
exec "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """`arguments` are the shell's; what it says first begins with `mark`, which nobody inside can know before."""

    arguments: list[str]
    mark: bytes


def begin(command: Command) -> Beginning:
    mark = f"crucible-{secrets.token_hex(12)}-"
    words = [mark.encode(), command.workdir, b"1" if command.makes_workdir else b"0", *command.argv]
    try:
        given = [word.decode() for word in words]
        return Beginning(arguments=["-c", _SCRIPT, "sh", *given], mark=mark.encode())
    except UnicodeDecodeError:
        # The wire carries text alone: what is none is spelled out in octal and put together inside.
        spelled = "".join(
            f"v=$(printf '%bx' '{_octal(word)}'); set -- \"$@\" \"${{v%x}}\"\n" for word in words
        )
        return Beginning(arguments=["-c", spelled + _SCRIPT, "sh"], mark=mark.encode())


def _octal(word: bytes) -> str:
    return "".join(f"\\0{byte:03o}" for byte in word)


def refusal(code: str, command: Command) -> GuestRefused:
    program = shown(command.argv[0])
    match code:
        case "not-found":
            return CommandNotFound(code, f"The sandbox has no command '{program}'")
        case "not-executable":
            return CommandNotExecutable(code, f"'{program}' cannot be executed in the sandbox")
        case "no-such-workdir":
            return GuestRefused(code, f"{shown(command.workdir)} is not a directory in the sandbox")
    return GuestRefused("bad-request", "The sandbox could not begin the command")


def shown(value: bytes) -> str:
    text = value[:300].decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
