"""`microvmctl`: finds the verb, runs it, and turns whatever happens into one last line and one exit status."""

from __future__ import annotations

import os
import sys

from crucible.cli.grammar import Arguments, BadUsage, Command, HelpWanted, Operand, Option, parse
from crucible.cli.provider import lines
from crucible.errors import CrucibleError, suggestion

PROGRAM = "microvmctl"

_NAME = Operand("NAME", "the sandbox", arity="optional", complete="sandbox")
_PATH = Operand("PATH", "an absolute path in the sandbox", arity="optional")
_REQUEST = Option(
    "request", "take what is asked for from the first line of standard input, as JSON"
)


def main(words: list[str] | None = None) -> int:
    given = sys.argv[1:] if words is None else words
    try:
        return _dispatch(given)
    except CrucibleError as error:
        return lines.fail(error)
    except BrokenPipeError:
        return lines.FAILED
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("CRUCIBLE_DEBUG"):
            import traceback

            traceback.print_exception(error)
        return lines.fail(CrucibleError(f"Crucible failed: {type(error).__name__}: {error}"))


def _dispatch(words: list[str]) -> int:
    known = {command.name: command for command in COMMANDS}
    if not words or words[0] in ("-h", "--help", "help"):
        return _help()
    if words[0] in ("-V", "--version"):
        words = ["version"]
    command = known.get(words[0])
    if command is None:
        raise BadUsage(f"There is no verb {words[0][:80]!r}", hint=suggestion(words[0], known))
    try:
        arguments = parse(command, words[1:])
    except HelpWanted:
        return _help()
    return command.run(arguments)


def _help() -> int:
    """To standard error: on standard output there is JSON and nothing else."""
    width = max(len(command.usage) for command in COMMANDS)
    for command in COMMANDS:
        sys.stderr.write(f"{command.usage:<{width}}  {command.summary}\n")
    return lines.FINE


def _verb(name: str) -> Command:
    """Its module is loaded when it is called."""
    summary, operands, options = _VERBS[name]

    def run(arguments: Arguments) -> int:
        from crucible.cli.provider import verbs

        function = {"exec": "execute", "list": "list_sandboxes"}.get(name, name)
        return getattr(verbs, function)(arguments)  # type: ignore[no-any-return]

    return Command(name, run, operands=operands, options=options, summary=summary, program=PROGRAM)


def _version(arguments: Arguments) -> int:
    import crucible

    return lines.succeed(crucible=crucible.__version__)


def _connect(arguments: Arguments) -> int:
    from crucible.cli.provider.relay import relay

    return relay(arguments.value("nonce") or "")


_VERBS: dict[str, tuple[str, tuple[Operand, ...], tuple[Option, ...]]] = {
    "probe": ("tell whether sandboxes can be run here", (), ()),
    "create": (
        "make a sandbox and start it",
        (_NAME,),
        (
            _REQUEST,
            Option("image", "what it starts from", metavar="IMAGE"),
            Option("memory", "its memory", metavar="SIZE"),
            Option("cpus", "its processors", metavar="N"),
            Option("disk", "its disk", metavar="SIZE"),
            Option("network", "what it may reach", metavar="MODE"),
            Option("profile", "how tightly it is closed", metavar="PROFILE"),
            Option("user", "who its commands are", metavar="USER"),
            Option("workdir", "where its commands begin", metavar="PATH"),
            Option("ttl", "when it is removed by itself", metavar="TIME"),
        ),
    ),
    "exec": (
        "run a command; its output comes as it is written",
        (_NAME, Operand("CMD", "the command and its arguments", arity="tail")),
        (
            _REQUEST,
            Option("env", "set a variable", short="e", metavar="K=V", is_repeatable=True),
            Option("workdir", "where it begins", short="w", metavar="PATH"),
            Option("user", "who it is", short="u", metavar="USER"),
            Option("timeout", "when it is ended", metavar="TIME"),
            Option("input", "give it our standard input", short="i"),
        ),
    ),
    "write": (
        "write standard input to a file",
        (_NAME, _PATH),
        (
            _REQUEST,
            Option("mode", "its permissions, in octal", metavar="MODE"),
            Option("parents", "make the directories that are missing"),
        ),
    ),
    "read": ("read a file", (_NAME, _PATH), (_REQUEST,)),
    "list": ("list sandboxes", (), ()),
    "destroy": ("end a sandbox and remove all of it", (_NAME,), (_REQUEST,)),
}

COMMANDS = (
    *(_verb(name) for name in _VERBS),
    Command(
        "connect",
        _connect,
        options=(Option("nonce", "what the answer begins with", metavar="HEX"),),
        summary="carry the owner's protocol over standard input and output",
        program=PROGRAM,
    ),
    Command("version", _version, summary="print the version", program=PROGRAM),
)
