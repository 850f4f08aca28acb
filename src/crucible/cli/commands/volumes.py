"""`volume`: what sandboxes share, one writer at a time."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.sandbox.volumes import Volume, Volumes


def show_all(arguments: Arguments) -> int:
    from crucible.cli import render

    volumes = _volumes().all()
    if arguments.flag("json"):
        render.show_json([volume._asdict() for volume in volumes])
    elif volumes:
        render.show_table(("NAME", "SIZE", "CHANGED"), [_row(volume) for volume in volumes])
    else:
        render.tell("There are no volumes; make one with `crucible volume create NAME`")
    return 0


def create(arguments: Arguments) -> int:
    from crucible.cli import render

    render.say(_volumes().create(arguments.word("NAME")).name)
    return 0


def inspect(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.commands.listing import sandbox_records
    from crucible.sandbox import volume_use

    name = arguments.word("NAME")
    volume, users = _volumes().find(name), volume_use.users(name, sandbox_records())
    if arguments.flag("json"):
        render.show_json({**volume._asdict(), "sandboxes": users})
    else:
        _, size, changed = _row(volume)
        facts = [("Name", name), ("Size", size), ("Changed", changed)]
        render.show_facts([*facts, ("Sandboxes", " ".join(users) or "-")])
    return 0


def remove(arguments: Arguments) -> int:
    from crucible.cli.commands.listing import sandbox_records
    from crucible.config import load_config
    from crucible.sandbox import volume_use

    volume_use.remove(arguments.word("NAME"), sandbox_records, load_config().home)
    return 0


def _volumes() -> Volumes:
    from crucible.config import load_config
    from crucible.sandbox.volumes import Volumes

    return Volumes(load_config().home)


def _row(volume: Volume) -> tuple[str, str, str]:
    from crucible.cli import render

    return volume.name, render.size(volume.size_bytes), render.moment(volume.changed_at)


_NAME = (Operand("NAME", "the volume"),)

COMMANDS = (
    Command(
        "volume",
        notes="""\
A sandbox with `--volume NAME:TARGET` gets what the volume holds when it starts, and what
it has there when it stops is kept. One sandbox at a time can write to a volume; others
can read it with `--volume NAME:TARGET:ro`.""",
        examples=(
            ("crucible run --volume shared:/shared touch /shared/a", "made where it is missing"),
            ("crucible run --cache pip -- pip install requests", "fetched once, not every time"),
        ),
        subcommands=(
            Command(
                "list",
                show_all,
                options=(JSON,),
                summary="List volumes",
                examples=(("crucible volume list", "their sizes and when they were changed"),),
            ),
            Command(
                "create",
                create,
                operands=_NAME,
                summary="Make an empty volume",
                examples=(("crucible volume create shared", "for `--volume shared:/shared`"),),
            ),
            Command(
                "inspect",
                inspect,
                operands=_NAME,
                options=(JSON,),
                summary="Show a volume and who uses it",
                examples=(("crucible volume inspect shared", "also which sandboxes name it"),),
            ),
            Command(
                "remove",
                remove,
                operands=_NAME,
                summary="Remove a volume that no running sandbox writes to",
                examples=(("crucible volume remove shared", "and what it holds"),),
            ),
        ),
    ),
)
