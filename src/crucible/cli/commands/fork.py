"""`fork`: running copies of a running sandbox."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand, Option
from crucible.cli.specs import whole_number

_MOST_FORKS = 100


def fork(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.client.answers import rows, words
    from crucible.errors import BadSetting

    name = arguments.word("NAME")
    count = whole_number(arguments.value("count") or "1", "--count")
    if not 1 <= count <= _MOST_FORKS:
        raise BadSetting(f"{count} copies cannot be made", hint=f"Ask for 1 to {_MOST_FORKS}")
    names = free_names(arguments.value("name") or name, count)
    answer = ask_owner("fork", {"name": name, "names": names}, doing=f"forking {name}")
    made = rows(answer, "sandboxes")
    if arguments.flag("json"):
        render.show_json(made)
        return 0
    for record in made:
        render.say(render.visible(words(record, "name")))
    return 0


def free_names(stem: str, count: int) -> list[str]:
    """`box-1`, `box-2`, …: the first that are not taken."""
    from crucible.cli.commands.listing import sandbox_records
    from crucible.sandbox.spec import check_name

    taken = {record.name for record in sandbox_records()}
    names: list[str] = []
    number = 1
    while len(names) < count:
        name = check_name(f"{stem}-{number}")
        if name not in taken:
            names.append(name)
        number += 1
    return names


COMMANDS = (
    Command(
        "fork",
        fork,
        operands=(Operand("NAME", "the running sandbox", complete="sandbox"),),
        options=(
            Option("count", f"how many copies, up to {_MOST_FORKS} (default: 1)", metavar="N"),
            Option("name", "what their names begin with (default: the sandbox's)", metavar="STEM"),
            JSON,
        ),
        notes="Each copy has the memory, programs and disk of the original, and ids of its own.",
        examples=(("crucible fork box --count 3", "box-1, box-2 and box-3, all running"),),
    ),
)
