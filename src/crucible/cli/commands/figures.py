"""`stats`, `logs`, `ports`: what happens inside."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    fields = {"name": arguments.word("NAME"), "console": arguments.flag("console")}
    ask_owner("logs", fields, sinks=sinks)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.flush()
    return 0


def ports(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner

    if wanted := arguments.values("forward"):
        return _forward(arguments.word("NAME"), wanted)
    found = ask_owner("ports", {"name": arguments.word("NAME")}).get("ports", [])
    if arguments.flag("json"):
        render.show_json({"ports": found})
        return 0
    for port in found:
        render.say(str(port))
    return 0


def _forward(name: str, wanted: list[str]) -> int:
    """Until interrupted."""
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
        render.say(f"127.0.0.1:{listener.getsockname()[1]} -> {name}:{there}")
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
_JSON = Option("json", "print JSON")

COMMANDS = (
    Command(
        "stats",
        stats,
        operands=(
            Operand(
                "NAME", "the sandboxes (default: all that run)", arity="any", complete="sandbox"
            ),
        ),
        options=(_JSON,),
        examples=(("crucible stats box", "processor time, memory, disk, processes"),),
    ),
    Command(
        "logs",
        logs,
        operands=(_NAME,),
        options=(Option("console", "what its kernel wrote to the console instead"),),
        notes="What commands wrote to standard output and errors goes to ours.",
        examples=(
            ("crucible logs box", "the output of its commands, watched or not"),
            ("crucible logs box --console", "why it did not boot"),
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
            _JSON,
        ),
        examples=(
            ("crucible ports box", "8080, when a server inside listens there"),
            ("crucible ports box --forward 9000:8080", "open it at http://127.0.0.1:9000"),
        ),
    ),
)
