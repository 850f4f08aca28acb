"""`runs`: what agents did, step by step, and whether that record is the one that was signed. Needs no daemon."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, BadUsage, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from crucible.ledger.keys import PublicKey
    from crucible.ledger.ledger import Ledger
    from crucible.ledger.verifying import Verdict

_DIFFERENT = 1
_SHOWN_CONTENT = 1 << 16


def show_all(arguments: Arguments) -> int:
    from functools import partial

    from crucible.cli import render, run_lines
    from crucible.ledger import reading

    limit = _number(arguments, "limit", 50)
    with _opened() as ledger:
        work = partial(reading.runs, user=None, before_us=None, limit=limit)
        found = ledger.database.look(work)
    if arguments.flag("json"):
        render.show_json([_fields(summary) for summary in found])
    elif found:
        rows = [run_lines.run_row(summary) for summary in found]
        render.show_table(run_lines.RUN_HEADINGS, rows)
    else:
        render.tell("There are no runs yet")
    return 0


def show(arguments: Arguments) -> int:
    from functools import partial

    from crucible.cli import render, run_lines
    from crucible.ledger import reading

    run = arguments.word("RUN")
    number = _number(arguments, "entry", 0)
    with _opened() as ledger:
        summary = ledger.database.look(partial(reading.run, run=run))
        if number:
            return _show_entry(ledger, run, number, arguments.flag("json"))
        entries = ledger.database.look(partial(reading.entries, run=run))
    if arguments.flag("json"):
        render.show_json({**_fields(summary), "entries": [_fields(entry) for entry in entries]})
        return 0
    render.show_facts(run_lines.run_facts(summary))
    rows = [run_lines.entry_row(entry) for entry in entries]
    render.show_table(run_lines.ENTRY_HEADINGS, rows)
    return 0


def export(arguments: Arguments) -> int:
    from pathlib import Path

    from crucible.cli import render
    from crucible.ledger.exporting import write_manifest

    run, output = arguments.word("RUN"), arguments.value("output")
    with _opened() as ledger:
        if arguments.flag("with-contents"):
            if output is None:
                raise BadUsage("Contents go into a file", hint="Name one with -o FILE")
            ledger.export_archive_now(run, Path(output))
        elif output is None:
            render.say(ledger.export_now(run).decode())
        else:
            write_manifest(Path(output), ledger.export_now(run))
    return 0


def verify(arguments: Arguments) -> int:
    """A run's name has neither dots nor slashes; what has is a file, and needs no database."""
    from pathlib import Path

    from crucible.cli import render, run_lines
    from crucible.ledger.keys import read_public_key

    target, named = arguments.word("RUN"), arguments.value("key")
    key = None if named is None else read_public_key(Path(named))
    verdict = _of_file(Path(target), key) if _is_path(target) else _of_run(target, key)
    if arguments.flag("json"):
        render.show_json({**_fields(verdict), "is_whole": verdict.is_whole})
    else:
        run_lines.tell_verdict(verdict)
    return 0 if verdict.is_whole else _DIFFERENT


def replay(arguments: Arguments) -> int:
    """Through the program that has the sandboxes. Status 1: something came out otherwise, or cannot be replayed."""
    from crucible.cli import render
    from crucible.cli.talking.reaching import reach, translated

    with translated(), reach() as client:
        found = client.replay(arguments.word("RUN"))
    if arguments.flag("json"):
        from dataclasses import asdict

        render.show_json(asdict(found))
    else:
        alike = f", {found.alike} of them but for times and ids" if found.alike else ""
        render.say(f"{found.same} of {found.calls} calls came out as recorded{alike}")
        if found.gap is not None:
            told = {name: str(found.gap.get(name, "")) for name in ("step", "why")}
            render.say(
                f"cannot be replayed from entry {found.gap.get('number')} on, "
                f"{render.visible(told['step'])}: {render.visible(told['why'])}"
            )
        if found.divergence is not None:
            told = {name: str(found.divergence.get(name, "")) for name in ("step", "what")}
            number = found.divergence.get("number")
            render.say(f"first difference: entry {number}, {render.visible(told['step'])}")
            render.say(f"  {render.visible(told['what'])}")
            for name in ("recorded", "got"):
                text = str(found.divergence.get(name, ""))
                render.say(f"  {name}: {render.visible(text)}")
    return 0 if found.divergence is None and found.gap is None else _DIFFERENT


def erase(arguments: Arguments) -> int:
    import asyncio

    from crucible.cli import render

    run = arguments.word("RUN")
    with _opened() as ledger:
        asyncio.run(ledger.erase(run, reason="by the user"))
    render.tell(f"The contents of {run} are erased; its entries stay")
    return 0


def show_key(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.ledger.keys import own_key

    key = own_key(load_config().home).public
    if arguments.flag("json"):
        render.show_json({"id": key.id, "pem": key.pem()})
    else:
        render.say(key.pem().rstrip())
    return 0


def _opened() -> AbstractContextManager[Ledger]:
    from contextlib import contextmanager

    @contextmanager
    def opened() -> Iterator[Ledger]:
        from crucible.config import load_config
        from crucible.ledger.ledger import Ledger
        from crucible.store.lazy import own_database

        home = load_config().home
        database = own_database(home)
        ledger = Ledger(home, database)
        try:
            yield ledger
        finally:
            ledger.close()
            database.close()

    return opened()


def _is_path(target: str) -> bool:
    return "/" in target or "." in target


def _of_file(path: Any, key: PublicKey | None) -> Verdict:
    from crucible.config import load_config
    from crucible.ledger.keys import own_public_key
    from crucible.ledger.manifests import verify_file

    return verify_file(path, key or own_public_key(load_config().home))


def _of_run(run: str, key: PublicKey | None) -> Verdict:
    with _opened() as ledger:
        return ledger.verify_now(run, key)


def _show_entry(ledger: Ledger, run: str, number: int, as_json: bool) -> int:
    from functools import partial

    from crucible.cli import render
    from crucible.errors import ContentGone
    from crucible.ledger import reading
    from crucible.ledger.ledger import read_content

    found = ledger.database.look(partial(reading.entries, run=run, after=number - 1, limit=1))
    if not found or found[0].number != number:
        raise BadUsage(f"The run {run!r} has no entry {number}")
    contents: dict[str, str | None] = {}
    for side, name in (("input", found[0].input), ("output", found[0].output)):
        try:
            data = None if name is None else read_content(ledger.contents, run, name)
        except ContentGone:
            data = b"(gone)"
        contents[side] = None if data is None else data.decode(errors="backslashreplace")
    if as_json:
        render.show_json({**_fields(found[0]), "contents": contents})
        return 0
    render.show_facts(
        [(key, render.visible(str(value))) for key, value in _fields(found[0]).items()]
    )
    for side, text in contents.items():
        if text is not None:
            render.say(f"\n{side}:")
            lines = text[:_SHOWN_CONTENT].split("\n")
            render.say("\n".join(render.visible(line) for line in lines))
    return 0


def _fields(value: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(value)


def _number(arguments: Arguments, name: str, default: int) -> int:
    text = arguments.value(name)
    if text is None:
        return default
    if not text.isdecimal() or len(text) > 9:
        raise BadUsage(f"--{name} is {text[:40]!r}", hint="It must be a whole number")
    return int(text)


_RUN = Operand("RUN", "the run's id in `runs list`")

COMMANDS = (
    Command(
        "runs",
        notes="""\
Every step of an agent is an entry: model calls, tool calls, approvals, decisions. Each is
bound to the one before and signed with the key of this state directory. What went in and
came out can be erased; the entry stays and says so.""",
        examples=(
            ("crucible runs list", "what agents did here"),
            ("crucible runs verify 0123456789ab", "is it still what was signed?"),
        ),
        subcommands=(
            Command(
                "list",
                show_all,
                options=(
                    Option("limit", "how many, the latest first (default: 50)", metavar="N"),
                    JSON,
                ),
                summary="List runs, the latest first",
                examples=(("crucible runs list --limit 5", "with tokens and costs"),),
            ),
            Command(
                "show",
                show,
                operands=(_RUN,),
                options=(
                    Option("entry", "one entry, with what went in and came out", metavar="N"),
                    JSON,
                ),
                summary="Show the entries of a run",
                examples=(("crucible runs show 0123456789ab --entry 3", "all of its third step"),),
            ),
            Command(
                "export",
                export,
                operands=(_RUN,),
                options=(
                    Option("output", "where to write it", short="o", metavar="FILE"),
                    Option("with-contents", "a zip file with what went in and came out"),
                ),
                summary="Write a run as one signed file",
                examples=(("crucible runs export 0123456789ab -o run.json", "for `runs verify`"),),
            ),
            Command(
                "verify",
                verify,
                operands=(
                    Operand("RUN", "the run's id, or a file that was exported", complete="path"),
                ),
                options=(
                    Option("key", "the public key to check with, a PEM file", metavar="FILE"),
                    JSON,
                ),
                summary="Check that a run, or an export, is what was signed",
                notes="""\
Nothing is asked of any network. Ends with 1 if something was changed, is missing or out of
order, and names the first entry. A word with a dot or a slash is a file.""",
                examples=(("crucible runs verify ./run.json --key ann.pem", "of somebody else"),),
            ),
            Command(
                "replay",
                replay,
                operands=(Operand("RUN", "the run's id in `runs list`"),),
                options=(JSON,),
                summary="Run a recorded session again in a fresh sandbox; name the first difference",
                examples=(
                    ("crucible runs replay ses-0123456789abcdef", "the whole session, once more"),
                ),
            ),
            Command(
                "erase",
                erase,
                operands=(_RUN,),
                summary="Erase what went into a run and came out of it; its entries stay",
                examples=(("crucible runs erase 0123456789ab", "`verify` then says so"),),
            ),
            Command(
                "key",
                show_key,
                options=(JSON,),
                summary="Print the public key with which runs are signed here",
                examples=(("crucible runs key > ann.pem", "for who verifies your exports"),),
            ),
        ),
    ),
)
