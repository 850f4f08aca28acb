"""`user`: who may sign in to the application, straight from the database, whether a server runs or not."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    from crucible.accounts.logins import Account
    from crucible.server.people import OpenPeople
    from crucible.server.store import Store

    T = TypeVar("T")

_HEADINGS = ("NAME", "ROLE", "PLAN", "STATE", "ID", "CREATED")
_LONGEST_LINE = 4096


def show_all(arguments: Arguments) -> int:
    from crucible.cli import render

    async def work(people: OpenPeople, store: Store) -> list[Account]:
        return await people.logins.all()

    found = _with_people(work)
    if arguments.flag("json"):
        render.show_json([_fields(account) for account in found])
    elif found:
        render.show_table(_HEADINGS, [_row(account) for account in found])
    else:
        render.tell("There are no users; add one with `crucible user add NAME`")
    return 0


def add(arguments: Arguments) -> int:
    """A password that was made up goes to standard output, this once."""
    from crucible.cli import render
    from crucible.server import administering

    password = _given_password() if arguments.flag("password-stdin") else None

    async def work(people: OpenPeople, store: Store) -> administering.Made:
        return await administering.add(
            people,
            arguments.word("NAME"),
            password,
            role=arguments.value("role") or "user",
            plan=arguments.value("plan") or "",
        )

    made = _with_people(work)
    if arguments.flag("json"):
        render.show_json({**_fields(made.account), "password": made.password})
    elif made.password is not None:
        _show_password(made.password)
    return 0


def password(arguments: Arguments) -> int:
    """A new one; the user is signed out everywhere."""
    from crucible.server import administering

    given = _given_password() if arguments.flag("password-stdin") else None

    async def work(people: OpenPeople, store: Store) -> str | None:
        account = await people.logins.find_by_name(arguments.word("NAME"))
        if given is None:
            return await administering.reset(people, account.id)
        await people.logins.set_password(account.id, given)
        return None

    made = _with_people(work)
    if made is not None:
        _show_password(made)
    return 0


def change(arguments: Arguments) -> int:
    from crucible.cli.grammar import BadUsage

    role, plan = arguments.value("role"), arguments.value("plan")
    if role is None and plan is None:
        raise BadUsage("Nothing is to be changed", hint="Give --role or --plan")
    return _changed(arguments, role=role, plan=plan)


def disable(arguments: Arguments) -> int:
    return _changed(arguments, is_disabled=True)


def enable(arguments: Arguments) -> int:
    return _changed(arguments, is_disabled=False)


def remove(arguments: Arguments) -> int:
    from crucible.server import administering

    async def work(people: OpenPeople, store: Store) -> None:
        for name in arguments.words("NAME"):
            account = await people.logins.find_by_name(name)
            await administering.remove(people, store, account.id)

    _with_people(work)
    return 0


def _changed(arguments: Arguments, **changes: Any) -> int:
    from crucible.server import administering

    async def work(people: OpenPeople, store: Store) -> None:
        for name in arguments.words("NAME"):
            account = await people.logins.find_by_name(name)
            await administering.change(people, store, account.id, **changes)

    _with_people(work)
    return 0


def _with_people(work: Callable[[OpenPeople, Store], Awaitable[T]]) -> T:
    import asyncio

    from crucible.config import load_config
    from crucible.server.people import OpenPeople
    from crucible.server.store import Store
    from crucible.store.lazy import own_database

    async def run() -> T:
        home = load_config().home
        store, database = Store(home), own_database(home)
        people = OpenPeople(database)
        try:
            return await work(people, store)
        finally:
            people.close()
            database.close()
            store.close()

    return asyncio.run(run())


def _given_password() -> str:
    import sys

    return sys.stdin.readline(_LONGEST_LINE).rstrip("\n")


def _show_password(text: str) -> None:
    from crucible.cli import render

    render.say(text)
    render.tell("This is shown once; only a hash of it is kept")


def _fields(account: Account) -> dict[str, Any]:
    from crucible.values import asdict

    return {**asdict(account), "role": str(account.role)}


def _row(account: Account) -> tuple[str, ...]:
    from crucible.cli import render

    return (
        account.name,
        str(account.role),
        account.plan or "none",
        "disabled" if account.is_disabled else "enabled",
        account.id,
        render.moment(account.created_at),
    )


_NAME = Operand("NAME", "the name that they sign in with")
_NAMES = Operand("NAME", "the names that they sign in with", arity="many")
_ROLE = Option(
    "role",
    "what they may do: user or admin (default: user)",
    metavar="ROLE",
    choices=("user", "admin"),
)
_PLAN = Option("plan", "what they may spend: free, dev or pro", metavar="PLAN")
_STDIN = Option("password-stdin", "read the password, a line, from standard input")
COMMANDS = (
    Command(
        "user",
        notes="""\
For `crucible serve --accounts`. Users see nothing but their own sandboxes, sessions and runs;
an administrator may also change what all share: images, volumes, users, files of the host.""",
        examples=(("crucible user add ada --role admin", "prints a password, this once"),),
        subcommands=(
            Command(
                "list",
                show_all,
                options=(JSON,),
                summary="List users",
                examples=(("crucible user list", "who may sign in"),),
            ),
            Command(
                "add",
                add,
                operands=(_NAME,),
                options=(_ROLE, _PLAN, _STDIN, JSON),
                summary="Add a user and print a password, this once",
                examples=(("crucible user add ada --plan dev", "with the limits of a plan"),),
            ),
            Command(
                "password",
                password,
                operands=(_NAME,),
                options=(_STDIN,),
                summary="Give a user another password",
                examples=(("crucible user password ada", "signs ada out everywhere"),),
            ),
            Command(
                "change",
                change,
                operands=(_NAMES,),
                options=(_ROLE, _PLAN),
                summary="Give users another role or plan",
                examples=(("crucible user change ada --role admin", "who may administer"),),
            ),
            Command(
                "disable",
                disable,
                operands=(_NAMES,),
                summary="Sign users out and let them in no more; their tokens go",
                examples=(("crucible user disable ada", "until `crucible user enable ada`"),),
            ),
            Command(
                "enable",
                enable,
                operands=(_NAMES,),
                summary="Let users in again who were disabled",
                examples=(("crucible user enable ada", "with the password that ada had"),),
            ),
            Command(
                "remove",
                remove,
                operands=(_NAMES,),
                summary="Remove users with their sessions and tokens; their sandboxes stay",
                examples=(("crucible user remove ada", "the name is free again"),),
            ),
        ),
    ),
)
