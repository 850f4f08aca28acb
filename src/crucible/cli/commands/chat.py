"""`chat`: a conversation with the agent at the terminal."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, Command, Option
from crucible.cli.talking.reaching import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible_client import Client, Session


def chat(arguments: Arguments) -> int:
    """A session that is kept; `--session` or `--continue` goes on with it later."""
    from crucible.cli.talking.conversation import Conversation
    from crucible.cli.talking.reaching import reach, translated

    with translated(), reach() as client:
        session = _session(client, arguments)
        Conversation(client, session, agrees=arguments.flag("yes")).run()
    return 0


def show_sessions(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.talking.reaching import reach, translated

    with translated(), reach() as client:
        found = sorted(client.sessions(), key=lambda one: one.used_at, reverse=True)
    if arguments.flag("json"):
        from dataclasses import asdict

        render.show_json([asdict(one) for one in found])
        return 0
    rows = [
        (
            one.id,
            one.state,
            str(one.turns),
            f"{one.cost_usd:.4f}",
            one.isolation or "-",
            render.moment(one.used_at),
            one.title,
        )
        for one in found
    ]
    if rows:
        render.show_table(("ID", "STATE", "TURNS", "USD", "ISOLATION", "USED", "TITLE"), rows)
    else:
        render.tell("There are no sessions; begin one with `crucible chat`")
    return 0


def remove(arguments: Arguments) -> int:
    from crucible.cli.talking.reaching import reach, translated

    with translated(), reach() as client:
        for id in arguments.words("ID"):
            client.session(id).destroy()
    return 0


def _session(client: Client, arguments: Arguments) -> Session:
    from crucible.cli.grammar import BadUsage
    from crucible.cli.talking.reaching import wanted

    if found := arguments.value("session"):
        return client.session(found)
    if arguments.flag("continue"):
        known = client.sessions()
        if not known:
            raise BadUsage("There is no session to go on with", hint="Begin one: `crucible chat`")
        return client.session(max(known, key=lambda one: one.used_at).id)
    return client.create_session(**wanted(arguments))


def _subcommands() -> tuple[Command, ...]:
    from crucible.cli.grammar import JSON, Operand

    return (
        Command(
            "list",
            show_sessions,
            options=(JSON,),
            summary="List sessions, the last used first",
            examples=(("crucible chat list", "what can be gone on with"),),
        ),
        Command(
            "remove",
            remove,
            operands=(Operand("ID", "a session's id in `chat list`", arity="many"),),
            summary="Remove sessions with their sandboxes; the ledger keeps what they did",
            examples=(("crucible chat remove ses-0123456789ab", "by its id"),),
        ),
    )


COMMANDS = (
    Command(
        "chat",
        chat,
        options=(
            *OPTIONS,
            Option("session", "go on with this session", short="s", metavar="ID"),
            Option("continue", "go on with the session that was used last", short="c"),
            Option("yes", "agree to every call that would be asked about", short="y"),
        ),
        subcommands=_subcommands(),
        notes="""\
Everything the model does happens in the session's sandbox. Calls that look risky are asked
about. Ctrl-C stops a turn, Ctrl-D leaves; /help lists what can be typed.""",
        examples=(
            ("crucible chat", "with the model that the settings name, or the embedded one"),
            ("crucible chat --dir . --model anthropic:claude-sonnet-4-5", "about a project"),
            ("crucible chat --continue", "where one left off"),
        ),
    ),
)
