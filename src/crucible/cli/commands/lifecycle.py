"""`start`, `stop`, `remove`, `pause`, `resume`, `prune`: one request for each sandbox named."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DEFAULT_GRACE = "10s"


def start(arguments: Arguments) -> int:
    """Values of secrets are never written down, so they come along each time, from our variables."""
    return _for_each(arguments, "start", {}, doing="starting", each=_secrets_of)


def stop(arguments: Arguments) -> int:
    from crucible.sandbox.spec import parse_duration_s

    grace_s = parse_duration_s(arguments.value("grace") or _DEFAULT_GRACE) or 0.0
    return _for_each(arguments, "stop", {"grace_s": grace_s}, doing="stopping")


def remove(arguments: Arguments) -> int:
    return _for_each(arguments, "remove", {"force": arguments.flag("force")}, doing="removing")


def pause(arguments: Arguments) -> int:
    return _for_each(arguments, "pause", {}, doing="pausing")


def resume(arguments: Arguments) -> int:
    return _for_each(arguments, "resume", {}, doing="resuming")


def prune(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.consent import agreed, is_somebody_there
    from crucible.cli.service import ask_owner

    if not arguments.flag("yes") and is_somebody_there():
        question = "Remove every named sandbox that is not running, with its disk?"
        if not agreed(question):
            return 0
    answer = ask_owner("prune", doing="removing what does not run")
    removed = [str(name) for name in answer.get("removed", [])]
    if arguments.flag("json"):
        render.show_json({"removed": removed})
        return 0
    for name in removed:
        render.say(render.visible(name))
    return 0


def _secrets_of(name: str) -> dict[str, Any]:
    import os

    from crucible.cli.commands.listing import sandbox_records

    bound = [record.spec.secrets for record in sandbox_records() if record.name == name]
    known = [text for text in (bound[0] if bound else ()) if text.partition(":")[0] in os.environ]
    if not known:
        return {}
    from crucible.sandbox.doors.secrets import as_request

    return {"secrets": as_request(known, os.environ)}


def _for_each(
    arguments: Arguments,
    verb: str,
    fields: dict[str, Any],
    *,
    doing: str,
    each: Callable[[str], dict[str, Any]] = lambda _: {},
) -> int:
    """Goes through all of them; what fails is told, and the first failure is the exit status."""
    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.errors import CrucibleError

    status = 0
    for name in dict.fromkeys(arguments.words("NAME")):
        try:
            ask_owner(verb, {"name": name, **fields, **each(name)}, doing=f"{doing} {name}")
        except CrucibleError as error:
            render.show_error(error)
            status = status or error.exit_status
    return status


_NAMES = (Operand("NAME", "the sandboxes", arity="many", complete="sandbox"),)

COMMANDS = (
    Command(
        "start",
        start,
        operands=_NAMES,
        examples=(("crucible start box", "boot it with the disk it had"),),
    ),
    Command(
        "stop",
        stop,
        operands=_NAMES,
        options=(
            Option(
                "grace",
                f"how long commands may take to end (default: {_DEFAULT_GRACE})",
                metavar="TIME",
            ),
        ),
        examples=(("crucible stop box", "shut it down; `crucible start box` brings it back"),),
    ),
    Command(
        "remove",
        remove,
        operands=_NAMES,
        options=(Option("force", "also if it is running", short="f"),),
        examples=(("crucible rm --force box", "end it and remove its disk, at once"),),
    ),
    Command(
        "pause",
        pause,
        operands=_NAMES,
        examples=(("crucible pause box", "it uses no processor until `crucible resume box`"),),
    ),
    Command(
        "resume",
        resume,
        operands=_NAMES,
        examples=(("crucible resume box", "its programs go on where they were"),),
    ),
    Command(
        "prune",
        prune,
        options=(
            Option("yes", "do not ask, also on a terminal", short="y"),
            JSON,
        ),
        notes="Prints the names of those it removed. What is running or paused stays.",
        examples=(("crucible prune", "remove all that are stopped or were never started"),),
    ),
)
