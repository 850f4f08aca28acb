"""`ask`: one question to the agent, for people, scripts and pipes."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, BadUsage, Command, Operand, Option
from crucible.cli.talking.reaching import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crucible_client import Session

_LARGEST_INPUT = 1 << 20
_CANCELLED = 130


def ask(arguments: Arguments) -> int:
    """The answer goes to standard output, and nothing else does."""
    from crucible.cli.talking.reaching import reach, read_schema, title_of, translated, wanted

    prompt = _prompt(" ".join(arguments.words("PROMPT")))
    path = arguments.value("json-schema")
    schema = read_schema(path) if path is not None else None
    with translated(), reach() as client:
        if found := arguments.value("session"):
            return _turn(client.session(found), prompt, schema, arguments)
        options = wanted(arguments)
        options["title"] = title_of(prompt)
        session = client.create_session(**options)
        if arguments.flag("keep"):
            from crucible.cli import render

            render.tell(f"session {session.id}")
            return _turn(session, prompt, schema, arguments)
        with session:
            return _turn(session, prompt, schema, arguments)


def _turn(
    session: Session, prompt: str, schema: dict[str, Any] | None, arguments: Arguments
) -> int:
    from contextlib import closing

    from crucible.cli.talking.showing import Showing
    from crucible.cli.talking.turns import follow

    is_json, is_text = arguments.flag("json"), schema is None
    showing = Showing(is_quiet=arguments.flag("quiet"), shows_text=is_text and not is_json)
    events = session.stream(prompt) if schema is None else session.stream_object(prompt, schema)
    with closing(events):
        end = follow(session, events, showing, agrees=arguments.flag("yes"))
    return _finish(end, wants_object=not is_text, is_json=is_json)


def _finish(end: dict[str, Any], *, wants_object: bool, is_json: bool) -> int:
    import json

    from crucible.cli import render
    from crucible.client.answers import ServiceError
    from crucible.errors import EXIT_FAILED

    if is_json:
        render.show_json(end)
    elif wants_object and end.get("end") == "done":
        render.say(json.dumps(end.get("value"), ensure_ascii=False))
    if end.get("end") == "done":
        return 0
    if end.get("end") == "cancelled":
        return _CANCELLED
    error = end.get("error") or {}
    raise ServiceError(
        error.get("message") or f"The turn ended as {end.get('end')!r}",
        hint=error.get("hint") or "",
        code=error.get("code") or "turn-failed",
        exit_status=EXIT_FAILED,
    )


def _prompt(words: str) -> str:
    """What is piped in comes behind the question, as what it is about."""
    import sys

    piped = ""
    if sys.stdin is not None and not sys.stdin.isatty():
        data = sys.stdin.buffer.read(_LARGEST_INPUT + 1)
        if len(data) > _LARGEST_INPUT:
            raise BadUsage(
                f"More than {_LARGEST_INPUT >> 20} MiB were piped in",
                hint="Give the agent a directory with --dir and let it read the file",
            )
        piped = data.decode(errors="replace").strip()
    if not words.strip() and not piped:
        raise BadUsage("There is nothing to ask", hint='crucible ask "what is 17 * 23"')
    return "\n\n".join(part for part in (words.strip(), piped) if part)


COMMANDS = (
    Command(
        "ask",
        ask,
        operands=(Operand("PROMPT", "what is asked; what is piped in is added", arity="any"),),
        options=(
            *OPTIONS,
            Option(
                "json-schema", "answer with a JSON object that fits this schema", metavar="FILE"
            ),
            Option("json", "print how the turn ended as JSON: text, tokens, cost"),
            Option("session", "ask in a session that is there", short="s", metavar="ID"),
            Option("keep", "keep the session, and tell its id"),
            Option("yes", "agree to every call that would be asked about", short="y"),
            Option("quiet", "show nothing but the answer", short="q"),
        ),
        notes="""\
The model works in a sandbox of its own, which is gone afterwards. Calls that look risky are
asked about at the terminal; where there is none they are denied.""",
        examples=(
            ('crucible ask "what is 17 * 23"', "an answer that was computed"),
            ('git diff | crucible ask -q "write a commit message"', "in a pipe"),
            ('crucible ask --json-schema user.json "invent a user"', "an object for a program"),
        ),
    ),
)
