"""`snapshot`: saved states of running sandboxes."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.sandbox.records import SnapshotRecord


def take(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.sandbox.spec import check_name

    name, tag = arguments.word("NAME"), check_name(arguments.word("TAG"), "snapshot")
    ask_owner("snapshot", {"name": name, "tag": tag}, doing=f"saving {name}")
    render.say(tag)
    return 0


def list_snapshots(arguments: Arguments) -> int:
    from crucible.cli import render

    records = snapshot_records()
    if arguments.flag("quiet"):
        for record in records:
            render.say(render.visible(record.tag))
    elif arguments.flag("json"):
        from crucible.sandbox.records import record_as_json

        render.show_json([record_as_json(record) for record in records])
    elif records:
        rows = [_row(record) for record in records]
        render.show_table(("TAG", "SANDBOX", "IMAGE", "MEMORY", "SIZE", "CREATED"), rows)
    else:
        render.tell("There are no snapshots; take one with `crucible snapshot NAME TAG`")
    return 0


def remove(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.errors import CrucibleError

    status = 0
    for tag in dict.fromkeys(arguments.words("TAG")):
        try:
            ask_owner("snapshot_remove", {"tag": tag}, doing=f"removing {tag}")
        except CrucibleError as error:
            render.show_error(error)
            status = status or error.exit_status
    return status


def export(arguments: Arguments) -> int:
    import os

    from crucible.cli.service import ask_owner

    path = os.path.abspath(arguments.word("FILE"))  # noqa: PTH100 - links are the user's choice
    ask_owner("snapshot_export", {"tag": arguments.word("TAG"), "path": path}, doing="exporting")
    return 0


def import_(arguments: Arguments) -> int:
    import os

    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.sandbox.spec import check_name

    path = os.path.abspath(arguments.word("FILE"))  # noqa: PTH100 - links are the user's choice
    tag = check_name(arguments.word("TAG"), "snapshot")
    ask_owner("snapshot_import", {"path": path, "tag": tag}, doing="importing")
    render.say(tag)
    return 0


def restore(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.sandbox.spec import check_name

    name = check_name(arguments.word("NAME"))
    fields = {"tag": arguments.word("TAG"), "name": name}
    ask_owner("restore", fields, doing=f"restoring {name}")
    render.say(name)
    return 0


def snapshot_records() -> list[SnapshotRecord]:
    from crucible.config import load_config
    from crucible.sandbox.records import FILE_NAME, open_records

    home = load_config().home
    return open_records(home).snapshots() if (home / FILE_NAME).exists() else []


def _row(record: SnapshotRecord) -> tuple[str, ...]:
    import time

    from crucible.cli import render
    from crucible.diagnosis.usage import size_of

    return (
        record.tag,
        record.sandbox_name,
        record.spec.image,
        render.memory(record.spec.memory_mib),
        render.size(size_of(record.directory)),
        f"{render.duration(time.time() - record.created_at)} ago",
    )


_SANDBOX = Operand("NAME", "the running sandbox", complete="sandbox")
_NEW_TAG = Operand("TAG", "what to call the snapshot")
_TAG = Operand("TAG", "the snapshot", complete="snapshot")
_FILE = Operand("FILE", "a file of the host", complete="path")

_SUBCOMMANDS = (
    Command(
        "create",
        take,
        operands=(_SANDBOX, _NEW_TAG),
        summary="Save a running sandbox; `crucible snapshot NAME TAG` is short for this",
        examples=(("crucible snapshot create box before", "also for a sandbox named `list`"),),
    ),
    Command(
        "list",
        list_snapshots,
        options=(JSON, Option("quiet", "print tags only", short="q")),
        summary="List snapshots",
        examples=(("crucible snapshot list", "tags, sizes, and which sandbox each was taken of"),),
    ),
    Command(
        "restore",
        restore,
        operands=(_TAG, Operand("NAME", "the name of the new sandbox")),
        summary="Make a running sandbox from a snapshot",
        examples=(("crucible snapshot restore before box2", "its programs go on as `box2`"),),
    ),
    Command(
        "remove",
        remove,
        operands=(Operand("TAG", "the snapshots", arity="many", complete="snapshot"),),
        summary="Remove snapshots",
        examples=(("crucible snapshot remove before", "free what it uses"),),
    ),
    Command(
        "export",
        export,
        operands=(_TAG, _FILE),
        summary="Write a snapshot to one file",
        examples=(("crucible snapshot export before before.crucible", "to keep it elsewhere"),),
    ),
    Command(
        "import",
        import_,
        operands=(_FILE, _NEW_TAG),
        summary="Take a snapshot from a file",
        notes="Only import files you trust: a snapshot is a whole machine in full run.",
        examples=(("crucible snapshot import before.crucible before", "take it in as `before`"),),
    ),
)

COMMANDS = (
    Command(
        "snapshot",
        take,
        operands=(_SANDBOX, _NEW_TAG),
        subcommands=_SUBCOMMANDS,
        notes="The sandbox goes on afterwards. A snapshot can be restored any number of times.",
        examples=(
            ("crucible snapshot box before", "save `box` as it is now, under the tag `before`"),
            ("crucible snapshot restore before box2", "a second sandbox that goes on from there"),
        ),
    ),
)
