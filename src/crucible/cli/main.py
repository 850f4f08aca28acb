"""`crucible`: finds the command, runs it, and turns whatever happens into one exit status."""

from __future__ import annotations

import gc
import os
import sys

from crucible.errors import EXIT_FAILED, CrucibleError

# `typing` would cost a third of the whole start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from crucible.cli.grammar import Command

_INTERRUPTED = 130
_GARBAGE_THRESHOLD = 100_000


def main(words: list[str] | None = None) -> int:
    """Imports as little as it can: how fast this is belongs to what is promised."""
    # Loading modules makes objects that all stay: looking for garbage among them is wasted time.
    gc.set_threshold(_GARBAGE_THRESHOLD)
    if words is not None:
        return guarded(lambda: _dispatch(words))
    if sys.argv[1:2] == ["run"]:
        _hand_over(sys.argv[1:])
    return _leave(guarded(lambda: _dispatch(sys.argv[1:])))


def _hand_over(words: list[str]) -> None:
    """Returns if there is no daemon to take it."""
    from crucible.client.front import FrontLost, hand_over
    from crucible.client.place import home_directory

    home = home_directory(os.environ)
    try:
        status = hand_over(words, home, os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120
    except FrontLost:
        _leave(guarded(_tell_loss))
    if status is None:
        return
    if os.WIFSIGNALED(status):
        _die_of(os.WTERMSIG(status))
    _leave(os.waitstatus_to_exitcode(status))


def _tell_loss() -> int:
    from crucible.errors import OwnerUnreachable

    raise OwnerUnreachable(
        "The daemon ended while the command ran", hint="Look at the state with `crucible list`"
    )


def guarded(work: Callable[[], int]) -> int:
    """The exit status for whatever comes of it."""
    _open_closed_descriptors()
    try:
        return work()
    except CrucibleError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return _die_of_a_broken_pipe()
    except Exception as error:
        return _failed_unexpectedly(error)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        return _help([])
    if words[0] == "help":
        return _help(words[1:])
    if words[0] in ("-V", "--version"):
        words = ["version"]
    from crucible.cli.grammar import HelpWanted, parse

    command = find_command(words[0])
    try:
        arguments = parse(command, words[1:])
    except HelpWanted as wanted:
        from crucible.cli import helping, render

        render.say(helping.command_help(wanted.command).rstrip("\n"))
        return 0
    return arguments.command.run(arguments)


def find_command(name: str) -> Command:
    """The command of that name or alias, with its module imported."""
    from crucible.cli import table

    name = table.ALIASES.get(name, name)
    if name not in table.MODULES:
        from crucible.cli.grammar import BadUsage
        from crucible.errors import suggestion

        known = [*table.MODULES, *table.ALIASES]
        raise BadUsage(
            f"There is no command {name!r}", hint=suggestion(name, known, "See `crucible --help`")
        )
    from importlib import import_module

    module = import_module(f"crucible.cli.commands.{table.MODULES[name]}")
    for command in module.COMMANDS:
        if command.name == name:
            return command  # type: ignore[no-any-return]
    raise LookupError(name)


def _leave(status: int) -> NoReturn:
    """Ends the process without taking the interpreter apart, for which nobody should wait."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except OSError:
                status = status or EXIT_FAILED
    os._exit(status)


def _help(words: list[str]) -> int:
    from crucible.cli import helping, render

    text = helping.command_help(find_command(words[0])) if words else helping.program_help()
    render.say(text.rstrip("\n"))
    return 0


def _failed(error: CrucibleError) -> int:
    from crucible.cli import render

    render.show_error(error)
    return error.exit_status


def _failed_unexpectedly(error: Exception) -> int:
    if os.environ.get("CRUCIBLE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    return _failed(
        CrucibleError(
            f"Crucible failed in a way nobody foresaw: {type(error).__name__}: {error}",
            hint="Set CRUCIBLE_DEBUG=1 to see where",
        )
    )


def _die_of_a_broken_pipe() -> int:
    """As any program of a pipeline does: by the signal, so that a shell sees what it expects."""
    import signal

    return _die_of(signal.SIGPIPE)


def _die_of(number: int) -> int:
    import signal

    # What cannot be caught has no handler to be set back.
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return EXIT_FAILED


def _open_closed_descriptors() -> None:
    """A socket must not become our standard output because the caller closed that."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
