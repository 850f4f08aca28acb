"""The options that several commands share, and what those that shape a sandbox ask for."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OPTIONS = (
    Option("image", "image to start from (default: base)", metavar="IMAGE"),
    Option("memory", "memory, like 512M or 2G (default: 512M)", short="m", metavar="SIZE"),
    Option("cpus", "processors (default: 1)", metavar="N"),
    Option("disk", "size of the disk, like 20G (default: 8G)", metavar="SIZE"),
    Option(
        "env",
        "set a variable for its commands; may be given again",
        short="e",
        metavar="K=V",
        is_repeatable=True,
    ),
    Option("workdir", "directory in the sandbox to begin in", short="w", metavar="PATH"),
    Option("user", "user in the sandbox to be", short="u", metavar="USER"),
    Option("dir", "copy this directory of the host to the working directory", metavar="PATH"),
    Option("no-network", "reach no network (always so in this version)"),
    Option(
        "backend",
        "what boots the machine (default: auto, the strongest that works)",
        metavar="NAME",
    ),
    Option(
        "min-isolation",
        "refuse anything weaker: hardware-vm, software-vm, userspace-kernel, wasm or namespace"
        " (default: software-vm)",
        metavar="LABEL",
    ),
    Option("config", "take settings from a crucible.toml; options go before it", metavar="FILE"),
)

TERMINAL_OPTIONS = (
    Option("tty", "give the command a terminal; ours is passed through to it", short="t"),
    Option("interactive", "pass standard input on (it always is; for habit, as in -it)", short="i"),
    Option("no-input", "keep standard input for ourselves, as in `while read` loops", short="n"),
)


def spec_fields(arguments: Arguments) -> tuple[dict[str, Any], str | None]:
    """The specification as the service takes it, checked, and the name the file gives if it does."""
    from crucible.sandbox.isolation import parse_isolation
    from crucible.sandbox.spec import SandboxSpec, parse_environment, parse_size_mib

    fields: dict[str, Any] = {}
    name = None
    if path := arguments.value("config"):
        from crucible.cli.config_file import read_config_file

        given = read_config_file(path)
        fields, name = dict(given.spec), given.name
    texts = {
        "image": arguments.value("image"),
        "backend": arguments.value("backend"),
        "workdir": arguments.value("workdir"),
        "user": arguments.value("user"),
    }
    fields |= {key: text for key, text in texts.items() if text is not None}
    if text := arguments.value("memory"):
        fields["memory_mib"] = parse_size_mib(text)
    if text := arguments.value("disk"):
        fields["disk_mib"] = parse_size_mib(text)
    if text := arguments.value("cpus"):
        fields["cpus"] = whole_number(text, "--cpus")
    if text := arguments.value("min-isolation"):
        fields["min_isolation"] = parse_isolation(text)
    if arguments.flag("no-network"):
        fields["allow_network"] = False
    fields["environment"] = parse_environment(arguments.values("env"))
    spec = SandboxSpec(**fields)
    return {**fields, "memory_mib": spec.memory_mib}, name


def whole_number(text: str, name: str) -> int:
    from crucible.errors import BadSetting

    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise BadSetting(f"{text!r} is no value for {name}", hint="Give a whole number")
    return int(text)


def host_directory(arguments: Arguments) -> str | None:
    """The directory to copy in, absolute; that it is one is checked before anything is started."""
    import os

    from crucible.errors import PathRefused

    path = arguments.value("dir")
    if path is None:
        return None
    if not os.path.isdir(path):  # noqa: PTH112 - pathlib would decide what the empty path means
        raise PathRefused(f"{path!r} is not a directory", hint="Give --dir an existing directory")
    return os.path.realpath(path)
