"""A guest's command joined to our terminal: the options it takes, and how its end becomes ours."""

from __future__ import annotations

import os
from typing import Any

from crucible.cli import render
from crucible.cli.grammar import Arguments, BadUsage
from crucible.cli.progress import ProgressLine
from crucible.client import command as joined
from crucible.client import terminal
from crucible.client.exchange import Connect, Upload

_SIGNALLED = 128
_LIMITS = {
    "time": "The command was ended after its time limit",
    "memory": "The command was killed because the sandbox ran out of memory",
    "output": "The command was killed because it wrote more than its output may be",
    "processes": "The command could not start more processes than it may have",
}


def command_fields(
    arguments: Arguments, argv: list[str], *, timeout_s: float | None, own: bool
) -> dict[str, Any]:
    """The command as the service takes it. `own`: what of its surroundings was given belongs to it alone."""
    from crucible.sandbox.spec import parse_environment

    has_terminal = arguments.flag("tty")
    if has_terminal and not os.isatty(joined.STDIN):
        raise BadUsage(
            "-t needs a terminal, but standard input is none",
            hint="Leave -t away in scripts and pipes",
        )
    rows, columns = terminal.window_size(joined.STDOUT, joined.STDIN) or (24, 80)
    environment = parse_environment(arguments.values("env")) if own else {}
    term = os.environ.get("TERM")
    if has_terminal and term:
        environment.setdefault("TERM", term)
    return {
        "argv": argv,
        "image": arguments.value("in") or "",
        "environment": environment,
        "workdir": (arguments.value("workdir") or "") if own else "",
        "user": (arguments.value("user") or "") if own else "",
        "terminal": has_terminal,
        "wants_input": wants_input(arguments),
        "rows": rows,
        "columns": columns,
        "timeout_s": timeout_s,
    }


def wants_input(arguments: Arguments) -> bool:
    return not arguments.flag("no-input") and terminal.has_input(joined.STDIN)


def join(
    connect: Connect,
    request: dict[str, Any],
    *,
    conduct: joined.Conduct,
    upload: Upload | None = None,
    wait: joined.Wait = joined.wait_for_nothing,
    doing: str,
    progress: ProgressLine | None = None,
) -> int:
    """Runs the command to its end and gives the status to end with."""
    try:
        ended = joined.run_command(
            connect,
            request,
            conduct=conduct,
            progress=progress or ProgressLine(doing),
            upload=upload,
            wait=wait,
        )
    except joined.Interrupted as interrupted:
        return _SIGNALLED + interrupted.number
    except joined.Detached as detached:
        name = detached.started.name or conduct.sandbox
        render.tell(
            f"Left the command running; return with `crucible attach --to {detached.started.stream} {name}`"
        )
        return 0
    _tell_limit(ended.answer.get("limit"))
    return ended.exit.status


def _tell_limit(limit: object) -> None:
    """Which limit the command met, its value, and what raises it."""
    if not isinstance(limit, dict):
        return
    said = _LIMITS.get(str(limit.get("name")), "The command met a limit")
    render.tell(f"error: {said} ({render.visible(str(limit.get('value')))})")
    render.tell(f"hint: Allow more with {render.visible(str(limit.get('option')))}")
