"""`system`: the space Crucible uses on this machine, and how to get it back."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, BadUsage, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_ROOMS = {
    "images": "root filesystems that sandboxes start from",
    "kernels": "guest kernels",
    "initramfs": "what boots with the kernel",
    "templates": "machines saved ready to start; made anew when needed",
    "sandboxes": "disks of named sandboxes",
    "snapshots": "saved states",
    "cache": "downloads",
}
_MADE_ANEW = ("templates", "cache", "scratch")
_LIVELY = ("creating", "starting", "running", "paused", "stopping")


def df(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.space import used_bytes
    from crucible.config import load_config

    home = load_config().home
    found = {path.name: used_bytes(path) for path in sorted(_children(home))}
    rooms = {name: size for name, size in found.items() if name in _ROOMS}
    rooms["other"] = sum(size for name, size in found.items() if name not in _ROOMS)
    total = sum(rooms.values())
    if arguments.flag("json"):
        render.show_json({"home": str(home), "bytes": rooms, "total_bytes": total})
        return 0
    rows = [(name, render.size(size), _ROOMS.get(name, "")) for name, size in rooms.items()]
    render.show_table(("WHAT", "SIZE", ""), [*rows, ("total", render.size(total), str(home))])
    return 0


def prune(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.commands.listing import sandbox_records, state_of
    from crucible.cli.space import remove_tree, used_bytes
    from crucible.config import load_config
    from crucible.errors import Refused

    home = load_config().home
    if any(state_of(record) in _LIVELY for record in sandbox_records()):
        raise Refused(
            "Sandboxes are running, and templates may be in use",
            hint="Stop them (`crucible list`), then try again",
        )
    before = used_bytes(home)
    _end_owner()
    for name in _MADE_ANEW:
        remove_tree(home / name)
    render.tell(f"Freed {render.size(max(0, before - used_bytes(home)))}")
    return 0


def uninstall(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.consent import agreed, is_somebody_there
    from crucible.cli.service import ask_owner
    from crucible.cli.space import remove_tree
    from crucible.config import load_config
    from crucible.sandbox.records import FILE_NAME, open_records

    home = load_config().home
    if not home.exists():
        render.tell(f"There is nothing in {home}")
        return 0
    if not (home / FILE_NAME).exists() and any(home.iterdir()) and not (home / "images").is_dir():
        raise BadUsage(
            f"{home} does not look like Crucible's",
            hint="Check CRUCIBLE_HOME, or remove it yourself",
        )
    question = f"Remove every sandbox, snapshot and image in {home}?"
    if not arguments.flag("yes") and not (is_somebody_there() and agreed(question)):
        raise BadUsage(
            "Nothing was removed", hint="Say --yes to remove every sandbox, snapshot and image"
        )
    if (home / FILE_NAME).exists():
        for record in open_records(home).sandboxes():
            ask_owner(
                "remove", {"name": record.name, "force": True}, doing=f"removing {record.name}"
            )
    _end_owner()
    remove_tree(home)
    render.tell(f"Removed {home}; the program itself goes with the environment it is installed in")
    return 0


def _children(home: Path) -> list[Path]:
    return list(home.iterdir()) if home.is_dir() else []


def _end_owner() -> None:
    """It ends by itself when idle; here nothing may hold files that are about to go."""
    from crucible.cli.progress import ProgressLine
    from crucible.cli.service import owner
    from crucible.client.exchange import ask

    connection = owner().connect_if_running()
    if connection is not None:
        ask(lambda: connection, {"verb": "shutdown"}, progress=ProgressLine())


COMMANDS = (
    Command(
        "system",
        subcommands=(
            Command(
                "df",
                df,
                options=(Option("json", "print JSON"),),
                summary="Show what uses how much space",
                examples=(("crucible system df", "images, templates, sandboxes, snapshots"),),
            ),
            Command(
                "prune",
                prune,
                summary="Remove whatever can be made anew: templates and downloads",
                examples=(
                    ("crucible system prune", "the next sandbox takes longer to start, once"),
                ),
            ),
            Command(
                "uninstall",
                uninstall,
                options=(Option("yes", "do not ask", short="y"),),
                summary="End everything and remove all of Crucible's state",
                examples=(("crucible system uninstall", "asks before it removes anything"),),
            ),
        ),
        examples=(("crucible system df", "what uses how much space"),),
    ),
)
