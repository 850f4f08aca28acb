"""`image build`: a Dockerfile or a recipe, and a directory → an image."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from crucible.build.instructions import BuildFile
    from crucible.build.work import Order
    from crucible.images.oci.reference import RegistryReference
    from crucible.sandbox.spec import SandboxSpec

_EPOCH_DIGITS = 11
_FILES = ("Dockerfile", "recipe.toml")


def build(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.building import make

    order = _order(arguments)
    built = make(order)
    render.tell(f"{built.ran} steps were done, {built.cached} came from the cache")
    render.say(render.visible(order.name.familiar))
    return 0


def _order(arguments: Arguments) -> Order:
    import os
    from pathlib import Path

    from crucible.build.work import Order
    from crucible.errors import PathRefused
    from crucible.sandbox.spec import DEFAULT_RUN_TIMEOUT_S, parse_duration_s, parse_environment

    context = Path(arguments.word("CONTEXT"))
    if not context.is_dir():
        raise PathRefused(
            f"{str(context)!r} is not a directory", hint="Name the context's directory"
        )
    text = arguments.value("timeout")
    return Order(
        file=_build_file(arguments.value("file"), context),
        context=context,
        name=_name(arguments.value("tag"), context),
        arguments=parse_environment(arguments.values("build-arg")),
        target=arguments.value("target") or "",
        uses_cache=not arguments.flag("no-cache"),
        spec=_spec(arguments),
        timeout_s=DEFAULT_RUN_TIMEOUT_S if text is None else parse_duration_s(text),
        epoch_s=_epoch_s(os.environ.get("SOURCE_DATE_EPOCH", "")),
    )


def _epoch_s(text: str) -> int | None:
    from crucible.errors import BadSetting

    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _EPOCH_DIGITS):
        raise BadSetting(
            f"SOURCE_DATE_EPOCH cannot be {text[:80]!r}", hint="Give seconds since 1970"
        )
    return int(text)


def _build_file(given: str | None, context: Path) -> BuildFile:
    from pathlib import Path

    from crucible.cli.building import read_build_file
    from crucible.errors import PathRefused

    candidates = [Path(given)] if given else [context / name for name in _FILES]
    for path in candidates:
        if (found := read_build_file(path)) is not None:
            return found
    names = " nor ".join(repr(str(path)) for path in candidates)
    raise PathRefused(f"There is no {names}", hint="Name the file with --file")


def _name(given: str | None, context: Path) -> RegistryReference:
    """As asked for, else after the directory, as of this host."""
    import re

    from crucible.images.oci.reference import parse_reference

    if given is not None:
        return parse_reference(given)
    stem = re.sub(r"[^a-z0-9]+", "-", context.resolve().name.lower()).strip("-") or "image"
    return parse_reference(f"localhost/{stem[:100].strip('-')}")


def _spec(arguments: Arguments) -> SandboxSpec:
    from crucible.sandbox.profiles import DEFAULT_PROFILE, find_profile
    from crucible.sandbox.spec import SandboxSpec, parse_size_mib

    plain = SandboxSpec()
    memory, disk = arguments.value("memory"), arguments.value("disk")
    return SandboxSpec(
        memory_mib=parse_size_mib(memory) if memory else plain.memory_mib,
        disk_mib=parse_size_mib(disk) if disk else plain.disk_mib,
        network=arguments.value("network") or find_profile(DEFAULT_PROFILE).network,
        allow=tuple(arguments.values("allow")),
        deny=tuple(arguments.values("deny")),
    )


BUILD = Command(
    "build",
    build,
    operands=(Operand("CONTEXT", "the directory whose files may be copied", complete="path"),),
    options=(
        Option(
            "file",
            "the Dockerfile, or a recipe if it ends in .toml (default: the context's Dockerfile or recipe.toml)",
            short="f",
            metavar="FILE",
        ),
        Option(
            "tag",
            "what to call the image (default: after the directory)",
            short="t",
            metavar="NAME",
        ),
        Option(
            "build-arg", "a value for an ARG; may be given again", metavar="K=V", is_repeatable=True
        ),
        Option("target", "the stage to build (default: the last)", metavar="STAGE"),
        Option("no-cache", "do every step anew"),
        Option(
            "network",
            "what RUN steps can reach (default: full, every public address)",
            metavar="MODE",
            choices=("off", "allowlist", "full"),
        ),
        Option(
            "allow",
            "let RUN steps reach a host: example.org, host:port, @registries; may be given again",
            metavar="RULE",
            is_repeatable=True,
        ),
        Option("deny", "never let them reach a host", metavar="RULE", is_repeatable=True),
        Option(
            "memory",
            "memory for a step, like 512M or 2G (default: 512M)",
            short="m",
            metavar="SIZE",
        ),
        Option("disk", "size of the disk for a step, like 20G (default: 8G)", metavar="SIZE"),
        Option(
            "timeout", "end a step after this time: 10m, 2h or none (default: 1h)", metavar="TIME"
        ),
    ),
    summary="Build an image from a Dockerfile or a recipe",
    notes="""\
Every RUN step has a machine of its own and nothing of this host. What steps write goes to
standard error; a step that fails ends the build with its status, and no name is changed.""",
    examples=(
        ("crucible image build -t app:1 .", "by the Dockerfile in this directory"),
        ("crucible image build -f app.toml -t app:1 .", "by a recipe"),
        (
            "crucible image build -t app:1 --network allowlist --allow @registries .",
            "where steps reach package registries only",
        ),
    ),
)
