"""`exec` and `attach`: commands in a sandbox that runs already."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, BadUsage, Command, Operand, Option
from crucible.cli.specs import IN_OPTION, TERMINAL_OPTIONS, whole_number

_SHELL = "if command -v bash >/dev/null; then exec bash; else exec sh; fi"


def execute(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.joining import command_fields, join
    from crucible.cli.service import ask_owner, owner
    from crucible.client.command import Conduct
    from crucible.sandbox.spec import check_name, parse_duration_s

    name = check_name(arguments.word("NAME"))
    limit = arguments.value("timeout")
    command = command_fields(
        arguments,
        arguments.words("CMD"),
        timeout_s=None if limit is None else parse_duration_s(limit),
        own=True,
    )
    request = {"verb": "exec", "name": name, "detach": arguments.flag("detach"), "command": command}
    if arguments.flag("detach"):
        if command["terminal"]:
            raise BadUsage("--detach and -t do not go together")
        command["wants_input"] = False
        render.say(str(ask_owner("exec", {**request}).get("stream", "")))
        return 0
    conduct = Conduct(
        outlives_us=True,
        sandbox=name,
        has_terminal=command["terminal"],
        wants_input=command["wants_input"],
        can_detach=command["terminal"],
    )
    return join(owner().connect, request, conduct=conduct, doing="reaching the sandbox")


def attach(arguments: Arguments) -> int:
    import os

    from crucible.cli.joining import command_fields, join
    from crucible.cli.service import owner
    from crucible.client.command import STDIN, Conduct
    from crucible.client.terminal import has_input
    from crucible.sandbox.spec import check_name

    name = check_name(arguments.word("NAME"))
    stream = arguments.value("to")
    has_terminal = os.isatty(STDIN)
    conduct = Conduct(
        outlives_us=True,
        sandbox=name,
        has_terminal=has_terminal,
        wants_input=has_input(STDIN),
        can_detach=has_terminal,
    )
    if stream is not None:
        request = {
            "verb": "attach",
            "name": name,
            "stream": whole_number(stream, "--to"),
            "output": 0,
            "errors": 0,
        }
    else:
        command = command_fields(arguments, ["sh", "-c", _SHELL], timeout_s=None, own=True)
        command["terminal"] = has_terminal
        if has_terminal:
            command["environment"].setdefault("TERM", os.environ.get("TERM") or "xterm")
        request = {"verb": "exec", "name": name, "detach": False, "command": command}
    return join(owner().connect, request, conduct=conduct, doing="reaching the sandbox")


_SURROUNDINGS = (
    Option(
        "env",
        "set a variable for the command; may be given again",
        short="e",
        metavar="K=V",
        is_repeatable=True,
    ),
    Option("workdir", "directory in the sandbox to begin in", short="w", metavar="PATH"),
    Option("user", "user in the sandbox to be", short="u", metavar="USER"),
)

_NAME = Operand("NAME", "the sandbox", complete="sandbox")

COMMANDS = (
    Command(
        "exec",
        execute,
        operands=(_NAME, Operand("CMD", "the command and its arguments", arity="rest")),
        options=(
            *TERMINAL_OPTIONS,
            IN_OPTION,
            Option("detach", "leave it running and print its number", short="d"),
            *_SURROUNDINGS,
            Option(
                "timeout",
                "end the command after this time: 30s, 10m, 2h (default: none)",
                metavar="TIME",
            ),
        ),
        notes="""\
The exit status is the command's own, as with `crucible run`. Ctrl-C is for the command;
a second Ctrl-C kills it. With -t, Ctrl-P Ctrl-Q leaves the command running.
Should the program that holds the sandboxes die meanwhile, the command goes on and
none of its output is lost.""",
        examples=(
            ("crucible exec box python3 -m pytest", "run the tests in the sandbox `box`"),
            ("crucible exec -it box bash", "a shell in it"),
            ("crucible exec -e LEVEL=2 -w /tmp box env", "with a variable, in another directory"),
        ),
    ),
    Command(
        "attach",
        attach,
        operands=(_NAME,),
        options=(
            Option(
                "to", "return to a command that was left running, by its number", metavar="NUMBER"
            ),
            IN_OPTION,
            *_SURROUNDINGS,
        ),
        notes="Opens bash, or sh where there is none. Ctrl-P Ctrl-Q leaves the shell running.",
        examples=(("crucible attach box", "a shell in the sandbox `box`"),),
    ),
)
