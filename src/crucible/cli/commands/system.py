"""`system`: the space Crucible uses on this machine, and how to get it back."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, BadUsage, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.diagnosis.uninstall import Removal


def df(arguments: Arguments) -> int:
    from dataclasses import asdict

    from crucible.cli import render
    from crucible.config import load_config
    from crucible.diagnosis.usage import disk_usage

    config = load_config()
    usages = disk_usage(config)
    if arguments.flag("json"):
        render.show_json([asdict(usage) for usage in usages])
        return 0
    rows = [
        (
            usage.kind,
            str(usage.items) if usage.items else "",
            render.size(usage.size_bytes),
            render.size(usage.reclaimable_bytes) if usage.reclaimable_bytes else "",
        )
        for usage in usages
    ]
    total = render.size(sum(usage.size_bytes for usage in usages))
    free = render.size(sum(usage.reclaimable_bytes for usage in usages))
    render.show_table(
        ("WHAT", "ITEMS", "SIZE", "CAN BE FREED"), [*rows, ("total", "", total, free)]
    )
    return 0


def prune(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.diagnosis import prune as pruning

    config = load_config()
    is_trial = arguments.flag("dry-run")
    found = pruning.find_prunable(config) if is_trial else pruning.prune(config)
    for item in found:
        render.say(
            f"{render.size(item.size_bytes):>10}  {render.visible(str(item.path))}: {item.why}"
        )
    total = render.size(sum(item.size_bytes for item in found))
    render.tell(f"{total} would be freed" if is_trial else f"Freed {total}")
    return 0


def uninstall(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.diagnosis import uninstall as removing

    config = load_config()
    removal = removing.uninstall(config, lambda found: arguments.flag("yes") or _agreed(found))
    if removal is None:
        render.tell(f"Nothing was removed from {render.visible(str(config.home))}")
        return 0
    render.tell(f"Removed {render.visible(str(removal.home))} ({render.size(removal.size_bytes)})")
    render.tell("The program itself goes with the environment it is installed in")
    return 0


def _agreed(removal: Removal) -> bool:
    from crucible.cli import render
    from crucible.cli.consent import agreed, is_somebody_there

    if not is_somebody_there():
        raise BadUsage("Nobody is there to ask", hint="Say --yes to remove all of Crucible's state")
    if removal.sandboxes:
        render.tell(f"Sandboxes that will be gone: {render.visible(', '.join(removal.sandboxes))}")
    return agreed(f"Remove {removal.home} ({render.size(removal.size_bytes)})?")


COMMANDS = (
    Command(
        "system",
        subcommands=(
            Command(
                "df",
                df,
                options=(JSON,),
                summary="Show what uses how much space",
                examples=(("crucible system df", "images, templates, sandboxes, snapshots"),),
            ),
            Command(
                "prune",
                prune,
                options=(Option("dry-run", "only show what would be removed"),),
                summary="Remove leftovers and what older versions needed",
                notes="No sandbox and no snapshot is touched.",
                examples=(("crucible system prune --dry-run", "see what can be freed"),),
            ),
            Command(
                "uninstall",
                uninstall,
                options=(Option("yes", "do not ask", short="y"),),
                summary="End every sandbox and remove all of Crucible's state",
                examples=(("crucible system uninstall", "asks before it removes anything"),),
            ),
        ),
        examples=(("crucible system df", "what uses how much space"),),
    ),
)
