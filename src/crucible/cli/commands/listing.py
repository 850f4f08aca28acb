"""`list` and `inspect`: what the records say, read without asking the owner."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crucible.sandbox.records import SandboxRecord

_HEADINGS = ("NAME", "STATE", "IMAGE", "MEMORY", "CPUS", "ISOLATION", "CREATED")


def list_sandboxes(arguments: Arguments) -> int:
    from crucible.cli import render

    records = sandbox_records()
    if arguments.flag("quiet"):
        for record in records:
            render.say(render.visible(record.name))
    elif arguments.flag("json"):
        render.show_json([_as_json(record) for record in records])
    elif records:
        render.show_table(_HEADINGS, [_row(record) for record in records])
    else:
        render.tell("There are no sandboxes; make one with `crucible create NAME`")
    return 0


def inspect(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.sandbox.records import open_records
    from crucible.sandbox.spec import check_name

    name = check_name(arguments.word("NAME"))
    record = open_records(load_config().home).find(name)
    if arguments.flag("json"):
        render.show_json(_as_json(record))
    else:
        render.show_facts(_facts(record))
    return 0


def sandbox_records() -> list[SandboxRecord]:
    from crucible.config import load_config
    from crucible.sandbox.records import FILE_NAME, open_records

    home = load_config().home
    # Looking must not be what makes the state directory.
    found = open_records(home).sandboxes() if (home / FILE_NAME).exists() else []
    return [record for record in found if record.state != "warm"]


def _as_json(record: SandboxRecord) -> dict[str, Any]:
    from crucible.sandbox.records import record_as_json

    return {**record_as_json(record), "state": state_of(record)}


def state_of(record: SandboxRecord) -> str:
    """As recorded, unless its processes are gone: the next command on it will find that out too."""
    from crucible.sandbox.processes import is_running

    if record.is_temporary and not is_running(record.holder_pid, record.holder_started):
        return "broken"
    # What runs elsewhere has no process here.
    is_lively = record.state in ("running", "paused", "stopping") and record.pid != 0
    if is_lively and not is_running(record.pid, record.pid_started):
        return "stopped"
    return record.state


def budget_line(record: SandboxRecord) -> str:
    """What its programs have spent on calls of models, of what they may."""
    from crucible.cli.accounts import opened
    from crucible.errors.accounts import shown_amount

    with opened() as accounts:
        standings = accounts.run(accounts.of_sandbox(record.id, record.spec))
    return ", ".join(
        f"{shown_amount(one.measure, one.spent + one.reserved)} of {shown_amount(one.measure, one.limit)}"
        for one in standings
    )


def _row(record: SandboxRecord) -> tuple[str, ...]:
    import time

    from crucible.cli import render

    return (
        record.name,
        state_of(record) + (" (temporary)" if record.is_temporary else ""),
        record.spec.image,
        render.memory(record.spec.memory_mib),
        str(record.spec.cpus),
        record.isolation or "-",
        f"{render.duration(time.time() - record.created_at)} ago",
    )


def _facts(record: SandboxRecord) -> list[tuple[str, str]]:
    from crucible.cli import render

    spec = record.spec
    facts = [
        ("Name", record.name),
        ("Id", record.id),
        ("State", state_of(record)),
        ("Note", record.note),
        ("Image", spec.image),
        ("Image digest", record.image_digest),
        ("Backend", record.backend or spec.backend),
        ("Placed", record.placed),
        ("Isolation", record.isolation or f"at least {spec.min_isolation}"),
        ("Memory", render.memory(spec.memory_mib)),
        ("Processors", str(spec.cpus)),
        ("Disk", render.memory(spec.disk_mib)),
        ("Profile", spec.profile),
        ("Network", spec.network),
        ("Allowed", " ".join(spec.allow)),
        ("Denied", " ".join(spec.deny)),
        ("Secrets", " ".join(spec.secrets)),
        ("Budget", budget_line(record) if spec.has_budget else ""),
        ("Read-only", "yes" if spec.read_only else ""),
        ("First command", " ".join(spec.after_create)),
        ("Mounts", " ".join(spec.mounts)),
        ("Capabilities", "none" if spec.drop_capabilities else ""),
        ("Working directory", spec.workdir),
        ("User", spec.user),
        ("Variables", " ".join(sorted(spec.environment))),
        ("Created", render.moment(record.created_at)),
        ("Started", render.moment(record.started_at)),
        ("Process", str(record.pid or "-")),
        ("Host directory", record.host_directory or ""),
        ("Files", str(record.directory)),
    ]
    return [(name, value) for name, value in facts if value]


COMMANDS = (
    Command(
        "list",
        list_sandboxes,
        options=(
            JSON,
            Option("quiet", "print names only", short="q"),
        ),
        examples=(("crucible list --json", "everything that is recorded, for programs"),),
    ),
    Command(
        "inspect",
        inspect,
        operands=(Operand("NAME", "the sandbox", complete="sandbox"),),
        options=(JSON,),
        examples=(("crucible inspect box", "state, sizes, isolation, where its files are"),),
    ),
)
