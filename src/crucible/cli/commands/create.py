"""`create`: a sandbox that stays."""

from __future__ import annotations

from crucible.cli import specs
from crucible.cli.grammar import Arguments, Command, Operand, Option


def create(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.sandbox.spec import check_name

    asked = specs.asked(arguments, [])
    name = arguments.optional_word("NAME") or asked.name
    if name is None:
        from crucible.cli.grammar import BadUsage

        raise BadUsage("NAME is missing", hint=f"Usage: {arguments.command.usage}")
    request = {
        "name": check_name(name),
        **asked.request(),
        "start": arguments.flag("start"),
        "upload": False,
        "host_directory": asked.source,
    }
    specs.settle_image(asked)
    ask_owner("create", request, doing=f"creating {name}")
    render.say(name)
    return 0


COMMANDS = (
    Command(
        "create",
        create,
        operands=(
            Operand("NAME", "what to call it; may be left to the --config file", arity="optional"),
        ),
        options=(Option("start", "start it at once"), *specs.OPTIONS),
        notes="""\
The directory given with --dir is copied in at the first start. `crucible diff` shows
what the sandbox changed in its copy, and `crucible apply` brings that to the host.
Files that a .crucibleignore in it names stay at home, and so do credentials.""",
        examples=(
            ("crucible create box --dir . --start", "a sandbox with a copy of this directory"),
            ("crucible create big --memory 4G --cpus 2", "one with more to work with"),
        ),
    ),
)
