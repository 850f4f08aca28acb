"""`token`: who may use the HTTP API over TCP."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crucible.server.store import Store
    from crucible.server.tokens import Token

_HEADINGS = ("ID", "NAME", "SCOPE", "SANDBOX", "CREATED", "EXPIRES")


def create(arguments: Arguments) -> int:
    """Its text goes to standard output, this once."""
    from crucible.cli import render
    from crucible.sandbox.spec import parse_duration_s
    from crucible.server.tokens import Scope, create_token

    expires = arguments.value("expires")
    sandbox = arguments.value("sandbox")
    token, text = create_token(
        _store(),
        arguments.word("NAME"),
        scope=Scope(arguments.value("scope") or Scope.RUN),
        lifetime_s=None if expires is None else parse_duration_s(expires),
        sandbox="" if sandbox is None else _sandbox_id(sandbox),
    )
    if arguments.flag("json"):
        render.show_json({**_fields(token), "token": text})
    else:
        render.say(text)
        render.tell("This is shown once; only a hash of it is kept")
    return 0


def show_all(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.server.tokens import list_tokens

    tokens = list_tokens(_store())
    if arguments.flag("json"):
        render.show_json([_fields(token) for token in tokens])
    elif tokens:
        render.show_table(_HEADINGS, [_row(token) for token in tokens])
    else:
        render.tell("There are no tokens; make one with `crucible token create NAME`")
    return 0


def revoke(arguments: Arguments) -> int:
    from crucible.server.tokens import revoke_token

    store = _store()
    for token_id in arguments.words("ID"):
        revoke_token(store, token_id)
    return 0


def _store() -> Store:
    from crucible.config import load_config
    from crucible.server.store import Store

    return Store(load_config().home)


def _sandbox_id(name: str) -> str:
    from crucible.config import load_config
    from crucible.sandbox.records import open_records
    from crucible.sandbox.spec import check_name

    return open_records(load_config().home).find(check_name(name)).id


def _fields(token: Token) -> dict[str, Any]:
    from crucible.values import asdict

    return {**asdict(token), "scope": str(token.scope)}


def _row(token: Token) -> tuple[str, ...]:
    from crucible.cli import render

    expires = "never" if token.expires_at is None else render.moment(token.expires_at)
    return (
        token.id,
        render.visible(token.name),
        str(token.scope),
        token.sandbox or "all",
        render.moment(token.created_at),
        "expired" if token.is_expired else expires,
    )


COMMANDS = (
    Command(
        "token",
        notes="""\
`read` may look, `run` may also make and use sandboxes, `admin` may also change what all of
them share: images, volumes, tokens, files of the host.""",
        examples=(("crucible token create ci --expires 30d", "for `crucible serve`"),),
        subcommands=(
            Command(
                "create",
                create,
                operands=(Operand("NAME", "what it is for"),),
                options=(
                    Option(
                        "scope",
                        "what it may do: read, run or admin (default: run)",
                        metavar="SCOPE",
                        choices=("read", "run", "admin"),
                    ),
                    Option("expires", "how long it is good, like 12h or 30d", metavar="DURATION"),
                    Option("sandbox", "the only sandbox it is good for", metavar="NAME"),
                    JSON,
                ),
                summary="Make a token and print it, this once",
                examples=(("crucible token create ci --expires 30d", "for a program"),),
            ),
            Command(
                "list",
                show_all,
                options=(JSON,),
                summary="List tokens, without their texts",
                examples=(("crucible token list", "who may do what, and how long"),),
            ),
            Command(
                "revoke",
                revoke,
                operands=(Operand("ID", "the token's id in `token list`", arity="many"),),
                summary="Make tokens worthless at once",
                examples=(("crucible token revoke 0123456789ab", "by its id"),),
            ),
        ),
    ),
)
