"""`stats`, `logs`, `ports`: what happens inside."""

from __future__ import annotations

from crucible.cli import specs
from crucible.cli.grammar import JSON, Arguments, BadUsage, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_HEADINGS = ("NAME", "CPU TIME", "MEMORY", "PEAK", "DISK USED", "PROCESSES", "OOM KILLS", "UP")


def stats(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner

    names = arguments.words("NAME") or _running_names()
    figures = [(name, ask_owner("stats", {"name": name})) for name in names]
    if arguments.flag("json"):
        render.show_json([{"name": name, **values} for name, values in figures])
    elif figures:
        render.show_table(_HEADINGS, [_row(name, values) for name, values in figures])
    else:
        render.tell("No sandbox is running")
    return 0


def logs(arguments: Arguments) -> int:
    import sys

    from crucible.cli.service import ask_owner
    from crucible.client.flows import CallSink
    from crucible.client.protocol import ERRORS, OUTPUT

    sinks = {OUTPUT: CallSink(sys.stdout.buffer.write), ERRORS: CallSink(sys.stderr.buffer.write)}
    if arguments.flag("console") and arguments.flag("network"):
        raise BadUsage("--console and --network are two logs", hint="Ask for one at a time")
    if arguments.flag("network"):
        return _network_log(arguments)
    fields = {"name": arguments.word("NAME"), "console": arguments.flag("console")}
    ask_owner("logs", fields, sinks=sinks)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.flush()
    return 0


def _network_log(arguments: Arguments) -> int:
    import json

    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.client.flows import CallSink
    from crucible.client.protocol import OUTPUT

    found = bytearray()
    request = {"name": arguments.word("NAME"), "network": True}
    ask_owner("logs", request, sinks={OUTPUT: CallSink(found.extend)})
    for line in found.decode(errors="replace").splitlines():
        if arguments.flag("json"):
            render.say(line)
        else:
            render.say(render.visible(_told(json.loads(line))))
    return 0


def _told(event: dict[str, Any]) -> str:
    """One event as a line: when, what, where, and why or how much."""
    from crucible.cli import render

    host = event["name"] or event["address"]
    words = [render.moment(event["time"]), f"{event['outcome']:7}", f"{host}:{event['port']}"]
    if event["times"] > 1:
        words.append(f"({event['times']} times)")
    if event["outcome"] == "allowed":
        up, down = render.size(event["bytes_up"]), render.size(event["bytes_down"])
        words.append(f"by {event['rule']}, {up} out, {down} in, {event['duration_s']:.1f} s")
    else:
        words.append(event["reason"])
    if event["hint"]:
        words.append(f"| {event['hint']}")
    return "  ".join(words)


def ports(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner

    if wanted := arguments.values("forward"):
        return _forward(arguments.word("NAME"), wanted)
    told = ask_owner("ports", {"name": arguments.word("NAME")})
    listening, published = told.get("ports", []), told.get("published", [])
    if arguments.flag("json"):
        render.show_json({"ports": listening, "published": published})
        return 0
    here = {port["guest"]: f"{port['address']}:{port['host']}" for port in published}
    for number in sorted({*listening, *here}):
        reached = f"\t{here[number]}" if number in here else ""
        render.say(f"{number}{reached}")
    return 0


def open_port(arguments: Arguments) -> int:
    """Until interrupted, unless the port is published already."""
    from crucible.cli import render
    from crucible.cli.service import ask_owner
    from crucible.errors import Refused

    name, wanted = arguments.word("NAME"), arguments.optional_word("PORT")
    told = ask_owner("ports", {"name": name})
    numbers = told.get("ports", [])
    port = specs.whole_number(wanted, "PORT") if wanted else next(iter(numbers), None)
    if port is None:
        raise Refused(f"Nothing listens in sandbox {name!r}", hint="Start a server in it first")
    published = [entry for entry in told.get("published", []) if entry["guest"] == port]
    if published:
        _show_in_browser(f"http://{published[0]['address']}:{published[0]['host']}/", arguments)
        return 0
    if port not in numbers:
        render.tell(f"Nothing listens on port {port} of {name} yet")
    return _forward(
        name, [f"0:{port}"], lambda here: _show_in_browser(f"http://{here}/", arguments)
    )


def _show_in_browser(url: str, arguments: Arguments) -> None:
    import os

    from crucible.cli import render

    render.say(url)
    if arguments.flag("no-browser") or not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    ):
        return
    import webbrowser

    webbrowser.open(url)


def _forward(name: str, wanted: list[str], ready: Callable[[str], None] | None = None) -> int:
    """Until interrupted. `ready` is told where each port is reached, instead of a line on stdout."""
    import threading

    from crucible.cli import render
    from crucible.cli.service import ask_owner, owner
    from crucible.client.forward import forward, listen

    pairs = [_port_pair(text) for text in wanted]
    ask_owner("ports", {"name": name})
    connect = owner().connect
    listeners = [(listen(here), there) for here, there in pairs]
    for listener, there in listeners:
        arguments = (listener, connect, name, there)
        threading.Thread(target=forward, args=arguments, daemon=True).start()
        here = f"127.0.0.1:{listener.getsockname()[1]}"
        if ready is not None:
            ready(here)
        else:
            render.say(f"{here} -> {name}:{there}")
    threading.Event().wait()
    return 0


def _port_pair(text: str) -> tuple[int, int]:
    from crucible.cli.grammar import BadUsage

    here, colon, there = text.rpartition(":")
    numbers = (here if colon else there, there)
    if not all(number.isdecimal() and int(number) < 65536 for number in numbers) or there == "0":
        raise BadUsage(f"{text!r} names no ports", hint="Write --forward 8080 or --forward 9000:80")
    return int(numbers[0]), int(there)


def _running_names() -> list[str]:
    from crucible.cli.commands.listing import sandbox_records, state_of

    return [
        record.name
        for record in sandbox_records()
        if state_of(record) == "running" and not record.is_temporary
    ]


def _row(name: str, values: dict[str, Any]) -> tuple[str, ...]:
    from crucible.cli import render

    def number(key: str) -> float:
        value = values.get(key)
        return value if isinstance(value, int | float) else 0

    total = number("memory_total")
    return (
        name,
        f"{number('cpu_s'):.1f} s",
        f"{render.size(total - number('memory_available'))} of {render.size(total)}",
        render.size(number("memory_peak")),
        f"{render.size(number('disk_total') - number('disk_free'))} of {render.size(number('disk_total'))}",
        f"{number('processes'):.0f}",
        f"{number('oom_kills'):.0f}",
        render.duration(number("uptime_s")),
    )


_NAME = Operand("NAME", "the sandbox", complete="sandbox")

COMMANDS = (
    Command(
        "stats",
        stats,
        operands=(
            Operand(
                "NAME", "the sandboxes (default: all that run)", arity="any", complete="sandbox"
            ),
        ),
        options=(JSON,),
        examples=(("crucible stats box", "processor time, memory, disk, processes"),),
    ),
    Command(
        "logs",
        logs,
        operands=(_NAME,),
        options=(
            Option("console", "what its kernel wrote to the console instead"),
            Option("network", "what its network decided instead: a line for each connection"),
            Option("json", "with --network: the events as they are, a JSON object a line"),
        ),
        notes="What commands wrote to standard output and errors goes to ours.",
        examples=(
            ("crucible logs box", "the output of its commands, watched or not"),
            ("crucible logs box --console", "why it did not boot"),
            ("crucible logs box --network", "what it reached, and what it was denied and why"),
        ),
    ),
    Command(
        "ports",
        ports,
        operands=(_NAME,),
        options=(
            Option(
                "forward",
                "reach a port of it on this machine's loopback, until Ctrl-C; may be given again",
                short="f",
                metavar="[HERE:]THERE",
                is_repeatable=True,
            ),
            JSON,
        ),
        examples=(
            ("crucible ports box", "8080, when a server inside listens there"),
            ("crucible ports box --forward 9000:8080", "open it at http://127.0.0.1:9000"),
        ),
    ),
    Command(
        "open",
        open_port,
        operands=(
            _NAME,
            Operand("PORT", "where it listens (default: the lowest port)", arity="optional"),
        ),
        options=(Option("no-browser", "only print the address"),),
        notes="""\
Shows a web server that runs in a sandbox in the browser, and prints its address. A port
that is not published is forwarded on loopback until Ctrl-C.""",
        examples=(("crucible open box 8080", "the page that the server in it serves"),),
    ),
)
