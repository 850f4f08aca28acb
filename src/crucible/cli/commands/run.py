"""`run`: one command in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Iterable

from crucible.cli import specs
from crucible.cli.grammar import Arguments, BadUsage, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crucible.cli.progress import ProgressLine
    from crucible.client.exchange import Upload


def run(arguments: Arguments) -> int:
    from crucible.cli.joining import command_fields
    from crucible.sandbox.spec import check_name

    words, entrypoint = arguments.words("CMD"), arguments.value("entrypoint")
    inside = arguments.value("in")
    # What runs in a further image says nothing of the first.
    asked = specs.asked(arguments, [] if inside else words)
    is_guessed = asked.image_is_guessed and not inside
    if not (words or entrypoint or inside) and (is_guessed or asked.image.value == "base"):
        raise BadUsage(
            "CMD is missing: only an image that is named can have one of its own",
            hint=f"Usage: {arguments.command.usage}",
        )
    given = arguments.value("name")
    name = asked.name if given is None else given
    if name is not None:
        check_name(name)
    command = command_fields(
        arguments, words, timeout_s=_timeout_s(arguments), own=inside is not None
    )
    # What the image runs by itself belongs to this command and to no other in the sandbox.
    command["entrypoint"] = _entrypoint(entrypoint, is_guessed=is_guessed)
    specs.settle_image(asked)
    if arguments.flag("keep"):
        return _run_kept(asked, name, asked.source, command)
    _tell_loss(asked.spec)
    return _run_temporary(asked, name, asked.source, command)


def _entrypoint(given: str | None, *, is_guessed: bool) -> list[str] | None:
    """None is the image's own. One that was guessed from the command is there to run that very command."""
    if given is None:
        return [] if is_guessed else None
    return [given] if given else []


def _run_temporary(
    asked: specs.Asked, name: str | None, source: str | None, command: dict[str, Any]
) -> int:
    from crucible.cli.joining import join
    from crucible.cli.progress import ProgressLine
    from crucible.cli.service import daemon, embedded
    from crucible.client.command import Conduct

    request = {
        "verb": "run",
        **asked.request(),
        "name": name,
        "keep": False,
        "upload": source is not None,
        "command": command,
    }
    way = daemon(asked.image.value)
    connect, wait = way or embedded()
    conduct = Conduct(
        has_another_way=way is not None,
        has_terminal=command["terminal"],
        wants_input=command["wants_input"],
    )
    doing = "starting a sandbox"
    progress = ProgressLine(doing)
    return join(
        connect,
        request,
        conduct=conduct,
        upload=_upload_of(source, asked.spec, progress),
        wait=wait,
        doing=doing,
        progress=progress,
    )


def _run_kept(
    asked: specs.Asked, name: str | None, source: str | None, command: dict[str, Any]
) -> int:
    """A named sandbox that is created, started and used at once, and stays."""
    import os

    from crucible.cli import render
    from crucible.cli.joining import join
    from crucible.cli.service import ask_owner, owner
    from crucible.client.command import Conduct

    name = name or f"kept-{os.urandom(4).hex()}"
    created = {
        "name": name,
        **asked.request(),
        "start": True,
        "host_directory": source,
    }
    ask_owner("create", created, doing="starting a sandbox")
    conduct = Conduct(
        outlives_us=True,
        sandbox=name,
        has_terminal=command["terminal"],
        wants_input=command["wants_input"],
    )
    request = {"verb": "exec", "name": name, "detach": False, "command": command}
    try:
        return join(owner().connect, request, conduct=conduct, doing="running")
    finally:
        render.tell(f"Kept sandbox {name}; remove it with `crucible rm --force {name}`")


def _tell_loss(spec: dict[str, Any]) -> None:
    from crucible.cli import render

    if any(text.endswith(":rw") for text in spec.get("mounts", ())):
        render.tell(
            "Nothing of a writable mount comes back from a temporary sandbox; --keep keeps it"
        )


def _upload_of(source: str | None, spec: dict[str, Any], progress: ProgressLine) -> Upload | None:
    if source is None:
        return None

    def pack() -> Iterable[bytes]:
        from pathlib import Path

        from crucible.config import load_config
        from crucible.sandbox.workspace.credentials import withheld_of
        from crucible.sandbox.workspace.ignore import load_ignore
        from crucible.sandbox.workspace.packing import pack_tree

        directory = Path(source)
        withheld = withheld_of(
            directory,
            include=bool(spec.get("include_credentials")),
            own_state=load_config().home,
        )
        yield from pack_tree(directory, ignore=load_ignore(directory), withheld=withheld)
        if withheld is not None and (told := withheld.told()):
            progress.tell(told)

    return pack


def _timeout_s(arguments: Arguments) -> float | None:
    from crucible.sandbox.spec import DEFAULT_RUN_TIMEOUT_S, parse_duration_s

    text = arguments.value("timeout")
    if text is not None:
        return parse_duration_s(text)
    return None if arguments.flag("tty") else DEFAULT_RUN_TIMEOUT_S


COMMANDS = (
    Command(
        "run",
        run,
        operands=(
            Operand(
                "CMD",
                "the command and its arguments, as the sandbox will see them (default: the image's)",
                arity="tail",
            ),
        ),
        options=(
            Option("keep", "keep the sandbox afterwards, as if it had been created"),
            Option("name", "name it (default: a name made up)", metavar="NAME"),
            *specs.OPTIONS,
            specs.IN_OPTION,
            Option(
                "entrypoint",
                "run this instead of the image's entrypoint; empty for none",
                metavar="PROGRAM",
            ),
            Option(
                "timeout",
                "end the command after this time: 30s, 10m, 2h or none (default: 1h; none with -t)",
                metavar="TIME",
            ),
            *specs.TERMINAL_OPTIONS,
        ),
        notes="""\
Output is passed through as it comes, standard input too, and the exit status is the
command's own: 124 when it ran out of time, 125 when Crucible failed, 126 when it
refused or the command cannot be executed, 127 when there is no such command.
Ctrl-C is for the command; a second Ctrl-C ends the sandbox.""",
        examples=(
            ("crucible run python3 -c 'print(1)'", "a sandbox, one line of Python, nothing left"),
            (
                "crucible run --dir . --timeout 10m -- pytest -q",
                "run the tests on a copy of this directory",
            ),
            ("crucible run -it bash", "look around inside"),
            ("tar c src | crucible run tar tv", "standard input goes in, output comes out"),
        ),
    ),
)
