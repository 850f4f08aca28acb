"""`cp`: files and trees between the host and a sandbox."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, BadUsage, Command, Operand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from crucible.sandbox.session import Entry


class GuestPath:
    """A path in a sandbox, as `NAME:PATH` gives it."""

    __slots__ = ("path", "sandbox")

    def __init__(self, sandbox: str, path: str) -> None:
        self.sandbox = sandbox
        self.path = path


def copy(arguments: Arguments) -> int:
    source, target = arguments.word("SOURCE"), arguments.word("TARGET")
    guest_source, guest_target = parse_guest_path(source), parse_guest_path(target)
    if guest_source is not None and guest_target is None:
        _copy_out(guest_source, target)
    elif guest_target is not None and guest_source is None:
        _copy_in(source, guest_target)
    elif guest_source is not None:
        raise BadUsage(
            "Both paths are in sandboxes",
            hint="Copy to the host first: sandboxes do not reach each other",
        )
    else:
        raise BadUsage(
            "Neither path is in a sandbox",
            hint="Write one of them as NAME:PATH, like box:/tmp/file",
        )
    return 0


def parse_guest_path(text: str) -> GuestPath | None:
    """`box:/tmp/x`. A host path with a colon in it is told apart by a slash before that: `./a:b`."""
    name, colon, path = text.partition(":")
    if not colon or not name or "/" in name:
        return None
    return GuestPath(name, path)


def _copy_out(source: GuestPath, target: str) -> None:
    import os

    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.client.flows import CallSink
    from crucible.client.protocol import OUTPUT
    from crucible.sandbox.workspace.copying import plan_copy_out

    plan = plan_copy_out(os.fsencode(_absolute(source)), target)
    root = os.fsdecode(plan.root)
    names = [os.fsdecode(name) for name in plan.names]
    for name in names:
        path = f"{root.rstrip('/')}/{name}"
        ask_owner("stat", {"name": source.sandbox, "path": path, "follow": False})
    fields = {"name": source.sandbox, "path": root, "names": names}
    with plan.unpacker() as unpacker:
        ask_owner("tar_out", fields, sinks={OUTPUT: CallSink(unpacker.feed)}, doing="copying")
        unpacker.finish()
        for name in unpacker.skipped:
            render.tell(f"warning: {render.visible(name)} was left out: it is no file")


def _copy_in(source: str, target: GuestPath) -> None:
    import os

    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.sandbox.workspace.copying import plan_copy_in
    from crucible.sandbox.workspace.packing import Packing

    path = _absolute(target)
    plan = plan_copy_in(source, os.fsencode(path), _found(target.sandbox, path))
    packings: list[Packing] = []

    def pack() -> Iterable[bytes]:
        packings.append(plan.packing())
        return packings[-1]

    fields = {"name": target.sandbox, "path": os.fsdecode(plan.root), "owner": ""}
    ask_owner("tar_in", fields, upload=pack, doing="copying")
    for skipped in packings[-1].skipped:
        render.tell(f"warning: {render.visible(skipped.path)} was left out: {skipped.why}")


def _found(sandbox: str, path: str) -> Entry | None:
    from crucible.cli.service import ask_owner
    from crucible.client.answers import ServiceError, table
    from crucible.errors import GuestRefused
    from crucible.sandbox.entries import from_fields

    try:
        answer = ask_owner("stat", {"name": sandbox, "path": path, "follow": True})
    except ServiceError as error:
        if error.code != GuestRefused.code:
            raise
        # Not there, or not to be seen: what matters of that is said when the copy is written.
        return None
    return from_fields(table(answer, "entry"))


def _absolute(place: GuestPath) -> str:
    """A relative path begins where the sandbox's commands do."""
    if place.path.startswith("/"):
        return place.path
    from crucible.config import load_config
    from crucible.images.catalog import load_image
    from crucible.sandbox.records import open_records
    from crucible.sandbox.spec import check_name

    home = load_config().home
    spec = open_records(home).find(check_name(place.sandbox)).spec
    workdir = spec.workdir or load_image(home, spec.image).workdir
    return f"{workdir.rstrip('/')}/{place.path or '.'}"


COMMANDS = (
    Command(
        "cp",
        copy,
        operands=(
            Operand("SOURCE", "what to copy: a path of the host, or NAME:PATH", complete="path"),
            Operand("TARGET", "where to: a path of the host, or NAME:PATH", complete="path"),
        ),
        notes="""\
Trees are copied whole; modes and symbolic links are kept, and links are never followed.
A target that is a directory is copied into, any other becomes the copy. A source that
ends in `/.` stands for what the directory holds. A relative path in a sandbox begins
at its working directory.""",
        examples=(
            ("crucible cp data.csv box:/tmp/", "a file into the sandbox `box`"),
            ("crucible cp box:results ./results", "a directory back to the host"),
        ),
    ),
)
