"""`daemon`: the program that stays, holds the sandboxes and keeps machines warm."""

from __future__ import annotations

from crucible.cli.commands.serve import DOORWAY
from crucible.cli.grammar import JSON, Arguments, BadUsage, Command, Option
from crucible.errors import DaemonRunning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crucible.client.daemon import Daemon

_NOT_RUNNING = 3
_LARGEST_PORT = 65535
_DEFAULT_LINES = "100"


def start(arguments: Arguments) -> int:
    from crucible.cli import render

    words = _door_words(arguments)
    if arguments.flag("foreground"):
        return _serve(words)
    found, was_started = _daemon().start(words)
    if words and not found.get("has_doors"):
        raise DaemonRunning
    state = "runs" if was_started else "was running already"
    render.tell(f"The daemon {state} (process {found['pid']}, holds {found['held']} sandboxes)")
    return 0


def status(arguments: Arguments) -> int:
    from crucible.cli import render

    found = _daemon().status()
    is_running = found is not None and bool(found.get("is_daemon"))
    if arguments.flag("json"):
        render.show_json({**(found or {}), "running": is_running})
    elif found is not None and is_running:
        render.show_facts(_facts(found))
    else:
        render.tell("The daemon is not running; start it with `crucible daemon start`")
    return 0 if is_running else _NOT_RUNNING


def stop(arguments: Arguments) -> int:
    from crucible.cli import render

    pid = _daemon().stop()
    if pid is None:
        render.tell("The daemon is not running")
    else:
        render.tell(f"What held the sandboxes (process {pid}) has left; named ones live on")
    return 0


def logs(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.commands import daemon_log

    given = arguments.value("lines")
    lines = daemon_log.line_count(_DEFAULT_LINES if given is None else given)
    path = _daemon().log
    if not path.exists():
        render.tell("There is no log yet; start the daemon with `crucible daemon start`")
        return 0
    daemon_log.show(path, lines, follows=arguments.flag("follow"))
    return 0


def install(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.commands import daemon_unit
    from crucible.client.daemon import daemon_command
    from crucible.config import load_config

    is_system = arguments.flag("system")
    home = str(load_config().home)
    text = daemon_unit.unit_text(daemon_command(["--foreground"]), home, is_system=is_system)
    if arguments.flag("print"):
        render.say(text.rstrip("\n"))
        return 0
    path = daemon_unit.install(text, is_system=is_system)
    render.tell(f"Wrote {render.visible(str(path))}; start it with")
    for line in daemon_unit.commands(is_system=is_system):
        render.tell(f"  {line}")
    return 0


def _daemon() -> Daemon:
    from crucible.client.daemon import Daemon
    from crucible.config import load_config

    return Daemon(load_config().home)


def _door_words(arguments: Arguments) -> list[str]:
    from pathlib import Path

    http = arguments.value("http")
    names = [option.long for option in DOORWAY]
    if http is None:
        if given := [name for name in names if arguments.flag(name)]:
            raise BadUsage(f"--{given[0]} is for the HTTP API", hint="Give --http as well")
        return []
    host, colon, port = http.rpartition(":")
    if not (host and colon and port.isascii() and port.isdecimal() and int(port) <= _LARGEST_PORT):
        raise BadUsage(f"--http is {http!r}", hint="Write it like 127.0.0.1:7070")
    words = ["--http", http]
    for option in DOORWAY:
        value = arguments.value(option.long) if option.metavar else None
        if value is not None:
            is_file = option.metavar == "FILE"
            words += [f"--{option.long}", str(Path(value).absolute()) if is_file else value]
        elif not option.metavar and arguments.flag(option.long):
            words.append(f"--{option.long}")
    return words


def _serve(words: list[str]) -> int:
    """In this very process, for whoever supervises it; the log goes to standard error."""
    import os

    from crucible.client.daemon import daemon_command

    command = daemon_command([*words, "--foreground"])
    os.execv(command[0], command)  # noqa: S606 - our own interpreter


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    import time

    from crucible.cli import render

    return [
        ("process", str(found["pid"])),
        ("running for", render.duration(time.time() - float(found["since"]))),
        ("sandboxes held", str(found["held"])),
        ("requests in work", str(found["busy"])),
        *_queue_facts(found.get("queue")),
        *_pool_facts(found.get("pool")),
        *_stage_facts(found.get("stages") or {}),
    ]


def _queue_facts(queue: dict[str, Any] | None) -> list[tuple[str, str]]:
    if queue is None:
        return []
    return [
        (
            "runs",
            f"{queue['running']} of {queue['most_running']} at work, {queue['waiting']} of "
            f"{queue['most_waiting']} waiting, {queue['refused']} refused",
        )
    ]


def _pool_facts(pool: dict[str, Any] | None) -> list[tuple[str, str]]:
    if pool is None:
        return [("pool", "none")]
    rate = pool["hit_rate"]
    return [
        ("warm", str(pool["warm"])),
        ("in use", str(pool["in_use"])),
        ("min/max", f"{pool['min']}/{pool['max']}"),
        ("hit rate", "-" if rate is None else f"{rate:.0%} of {pool['hits'] + pool['misses']}"),
    ]


def _stage_facts(stages: dict[str, dict[str, float]]) -> list[tuple[str, str]]:
    return [
        (name, f"p50 {figure['p50_ms']:.1f} ms, p99 {figure['p99_ms']:.1f} ms ({figure['count']})")
        for name, figure in stages.items()
    ]


COMMANDS = (
    Command(
        "daemon",
        subcommands=(
            Command(
                "start",
                start,
                options=(
                    Option(
                        "http",
                        "serve the HTTP API there as well, as `crucible serve` does",
                        metavar="HOST:PORT",
                    ),
                    *DOORWAY,
                    Option("foreground", "stay in this process, for a supervisor"),
                ),
                summary="Start the daemon; it takes over what is running",
                notes="Sandboxes that run already, and the commands in them, are taken over as they are.",
                examples=(("crucible daemon start", "returns when it serves"),),
            ),
            Command(
                "status",
                status,
                options=(JSON,),
                summary="Show how the daemon is",
                notes="The exit status is 0 when it runs and 3 when it does not.",
                examples=(("crucible daemon status --json", "for programs"),),
            ),
            Command(
                "stop",
                stop,
                summary="Stop the daemon; named sandboxes live on",
                notes="""\
Commands of `crucible run` get CRUCIBLE_DRAIN_S seconds (default: 10) to end. Named
sandboxes and the commands in them go on; the next command on one finds them. Where no
daemon runs, the program that was started on demand leaves: the next command starts one
that sees the variables of now.""",
                examples=(("crucible daemon stop", "returns when it has left"),),
            ),
            Command(
                "logs",
                logs,
                options=(
                    Option("follow", "wait for more", short="f"),
                    Option(
                        "lines",
                        "how many of the last lines (default: 100)",
                        metavar="COUNT",
                        short="n",
                    ),
                ),
                summary="Show what the daemon has logged",
                examples=(("crucible daemon logs -f", "watch it at work"),),
            ),
            Command(
                "install",
                install,
                options=(
                    Option("system", "for the whole machine, as root (default: for this user)"),
                    Option("print", "only show the unit"),
                ),
                summary="Write a unit for systemd, so that it starts with the machine",
                notes="""\
The unit runs this very installation with this state directory. Stopping it leaves
named sandboxes running, as `crucible daemon stop` does.""",
                examples=(
                    ("crucible daemon install", "for this user"),
                    ("crucible daemon install --print", "see what would be written"),
                ),
            ),
        ),
        examples=(
            ("crucible daemon start", "from now on `crucible run` takes machines that wait warm"),
            ("crucible daemon status", "how it is"),
        ),
    ),
)
