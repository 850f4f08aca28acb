"""`memory`: what is known of a user, seen, changed and forgotten. It reads the database itself; no engine is needed."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, BadUsage, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    from crucible.memory.facts import Fact, Kind
    from crucible.memory.memory import Memory

    T = TypeVar("T")

# Whoever uses this machine without an account.
_OWN_USER = "local"
_HEADINGS = ("ID", "KIND", "PINNED", "SAID", "STATE", "TEXT")
_MOST_BYTES = 64 << 20
_BUDGET_TOKENS = 1000


def show_all(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.memory.portable import as_json

    user = _user(arguments)
    states: Any = ("active", "superseded", "expired") if arguments.flag("all") else ("active",)
    facts, settings = _do(lambda memory: _look(memory, user, states))
    if arguments.flag("json"):
        render.show_json([as_json(fact) for fact in facts])
        return 0
    if facts:
        render.show_table(_HEADINGS, [_row(fact) for fact in facts])
    else:
        render.tell("Nothing is remembered; add something with `crucible memory add TEXT`")
    if not settings.user:
        render.tell("Memory is turned off; turn it on with `crucible memory on`")
    return 0


def add(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.memory.portable import as_json

    user, text = _user(arguments), " ".join(arguments.words("TEXT"))
    kind: Kind | None = arguments.value("kind")  # type: ignore[assignment]
    change = _do(lambda memory: memory.remember(user, text, kind=kind), by_meaning=True)
    if arguments.flag("json"):
        render.show_json({"action": change.action, **as_json(change.fact)})
        return 0
    render.say(change.fact.id)
    if change.action == "confirmed":
        render.tell("That was known")
    for old in change.before:
        render.tell(f"It replaces {render.visible(old.text)!r}")
    return 0


def edit(arguments: Arguments) -> int:
    user, text = _user(arguments), " ".join(arguments.words("TEXT"))
    _do(lambda memory: memory.edit(user, arguments.word("ID"), text=text), by_meaning=True)
    return 0


def pin(arguments: Arguments) -> int:
    return _pin(arguments, is_pinned=True)


def unpin(arguments: Arguments) -> int:
    return _pin(arguments, is_pinned=False)


def forget(arguments: Arguments) -> int:
    user, ids = _user(arguments), arguments.words("ID")
    if arguments.flag("all"):
        if ids:
            raise BadUsage("--all forgets everything, and takes no ID beside it")
        _agree(arguments, user)
        _do(lambda memory: memory.forget_all(user))
        return 0
    if not ids:
        raise BadUsage("ID is missing: what to forget", hint="Or forget everything with --all")

    async def each(memory: Memory) -> None:
        for fact in ids:
            await memory.forget(user, fact, with_history=arguments.flag("history"))

    _do(each)
    return 0


def export(arguments: Arguments) -> int:
    from crucible.cli import render

    user = _user(arguments)
    render.show_json(_do(lambda memory: memory.export(user)))
    return 0


def import_(arguments: Arguments) -> int:
    from crucible.cli import render

    user, value = _user(arguments), _read_json(arguments.word("FILE"))
    imported = _do(lambda memory: memory.import_(user, value), by_meaning=True)
    known = sum(change.action == "confirmed" for change in imported.changes)
    render.tell(
        f"{len(imported.changes) - known} taken, {known} known already, {imported.left_out} left out"
    )
    return 0


def turn_on(arguments: Arguments) -> int:
    return _switch(arguments, is_enabled=True)


def turn_off(arguments: Arguments) -> int:
    return _switch(arguments, is_enabled=False)


def recall(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.memory.portable import as_json

    user, query = _user(arguments), " ".join(arguments.words("QUERY"))
    budget = _budget(arguments.value("budget"))
    recalled = _do(lambda memory: memory.recall(user, query, budget), by_meaning=True)
    if arguments.flag("json"):
        items = [
            {
                **as_json(item.fact),
                "score": round(item.score, 4),
                "reason": str(item.reason),
                "words": list(item.reason.words),
                "similarity": item.reason.similarity,
            }
            for item in recalled.items
        ]
        shown = {"items": items, "tokens": recalled.tokens, "notice": recalled.notice or None}
        render.show_json({**shown, "text": recalled.text})
        return 0
    if recalled.items:
        rows = [(item.fact.id, item.fact.text, str(item.reason)) for item in recalled.items]
        render.show_table(("ID", "TEXT", "WHY"), rows)
    if recalled.notice:
        render.tell(recalled.notice)
    return 0


def show_summaries(arguments: Arguments) -> int:
    from crucible.cli import render

    user = _user(arguments)
    found = _do(lambda memory: memory.summaries(user))
    if arguments.flag("json"):
        render.show_json(
            [
                {
                    "session": one.session,
                    "covers": one.covers,
                    "made_at": one.made_at,
                    "text": one.text,
                }
                for one in found
            ]
        )
        return 0
    for one in found:
        render.say(f"{one.session}, {render.moment(one.made_at)}, of {one.covers} messages:")
        for line in one.text.split("\n"):
            render.say(f"  {render.visible(line)}")
    if not found:
        render.tell("No conversation was long enough to be summarized")
    return 0


async def _look(memory: Memory, user: str, states: Any) -> Any:
    return await memory.list(user, states=states), await memory.settings(user)


def _pin(arguments: Arguments, *, is_pinned: bool) -> int:
    user, ids = _user(arguments), arguments.words("ID")

    async def each(memory: Memory) -> None:
        for fact in ids:
            await memory.pin(user, fact, is_pinned=is_pinned)

    _do(each)
    return 0


def _switch(arguments: Arguments, *, is_enabled: bool) -> int:
    user, session = _user(arguments), arguments.value("session") or ""
    _do(lambda memory: memory.set_enabled(user, is_enabled, session=session))
    return 0


def _do(work: Callable[[Memory], Awaitable[T]], *, by_meaning: bool = False) -> T:
    import asyncio

    from crucible import assemble
    from crucible.config import load_config

    async def do() -> T:
        async with assemble.memory(load_config(), by_meaning=by_meaning) as memory:
            return await work(memory)

    return asyncio.run(do())


def _user(arguments: Arguments) -> str:
    return arguments.value("user") or _OWN_USER


def _agree(arguments: Arguments, user: str) -> None:
    from crucible.cli import consent
    from crucible.errors import Refused

    if arguments.flag("yes"):
        return
    if not consent.is_somebody_there():
        raise BadUsage("This forgets everything", hint="Say so with --yes")
    if not consent.agreed(f"Forget everything that is known of {user!r}?"):
        raise Refused("Nothing was forgotten")


def _budget(text: str | None) -> int:
    if text is None:
        return _BUDGET_TOKENS
    if not text.isdecimal() or len(text) > 9:
        raise BadUsage(f"{text!r} is no number of tokens")
    return int(text)


def _read_json(path: str) -> object:
    import json
    from pathlib import Path

    from crucible.errors import PathRefused

    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise PathRefused(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise PathRefused(f"{path} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise PathRefused(f"{path} is not JSON") from None


def _row(fact: Fact) -> tuple[str, ...]:
    from crucible.cli import render

    state = f"replaced by {fact.superseded_by}" if fact.superseded_by else fact.state
    pinned = "yes" if fact.is_pinned else "-"
    return fact.id, fact.kind, pinned, render.moment(fact.updated_at), state, fact.text


_USER = Option("user", f"whose memory it is (default: {_OWN_USER})", metavar="NAME")
_SESSION = Option("session", "for one session only", metavar="ID")
_ID = Operand("ID", "the memory, as `list` shows it")
_IDS = (Operand("ID", "the memory, as `list` shows it", arity="many"),)
_TEXT = Operand("TEXT", "one statement", arity="many")

COMMANDS = (
    Command(
        "memory",
        notes="""\
What you say of yourself in one conversation is known in the next: facts, preferences,
goals and constraints. Only your own words count, never what a tool or a page says, and
secrets are not kept. What is forgotten is gone from every file of ours.""",
        examples=(
            ("crucible memory list", "all that is known of you"),
            ("crucible memory recall 'which foods must I avoid?'", "what a turn would be told"),
        ),
        subcommands=(
            Command(
                "list",
                show_all,
                options=(Option("all", "also what was replaced or has expired"), _USER, JSON),
                summary="List what is known",
                examples=(("crucible memory list --all", "with what was replaced"),),
            ),
            Command(
                "add",
                add,
                operands=(_TEXT,),
                options=(
                    Option(
                        "kind",
                        "what it is (default: as it reads)",
                        metavar="KIND",
                        choices=("fact", "preference", "goal", "constraint"),
                    ),
                    _USER,
                    JSON,
                ),
                summary="Remember a statement",
                examples=(("crucible memory add 'I moved to Porto'", "replaces the old home"),),
            ),
            Command(
                "edit",
                edit,
                operands=(_ID, _TEXT),
                options=(_USER,),
                summary="Change the words of a memory",
                examples=(("crucible memory edit mem_0123456789abcdef 'Lives in Braga'", ""),),
            ),
            Command(
                "pin",
                pin,
                operands=_IDS,
                options=(_USER,),
                summary="Recall it always, and never let it expire",
                examples=(("crucible memory pin mem_0123456789abcdef", "it never expires"),),
            ),
            Command(
                "unpin",
                unpin,
                operands=_IDS,
                options=(_USER,),
                summary="Treat it like any other again",
                examples=(("crucible memory unpin mem_0123456789abcdef", "it may expire"),),
            ),
            Command(
                "forget",
                forget,
                operands=(Operand("ID", "the memory, as `list` shows it", arity="any"),),
                options=(
                    Option("history", "with all that it has replaced"),
                    Option("all", "everything that is known"),
                    Option("yes", "do not ask"),
                    _USER,
                ),
                summary="Forget for good: it is gone from every file of ours",
                examples=(
                    ("crucible memory forget mem_0123456789abcdef --history", "and its past"),
                ),
            ),
            Command(
                "export",
                export,
                options=(_USER,),
                summary="Print everything that is known as JSON",
                examples=(("crucible memory export > memories.json", "to take away"),),
            ),
            Command(
                "import",
                import_,
                operands=(Operand("FILE", "what `export` printed", complete="path"),),
                options=(_USER,),
                summary="Remember what an export holds",
                examples=(("crucible memory import memories.json", "as if it were said anew"),),
            ),
            Command(
                "on",
                turn_on,
                options=(_SESSION, _USER),
                summary="Turn memory on",
                examples=(("crucible memory on", "it is on unless it was turned off"),),
            ),
            Command(
                "off",
                turn_off,
                options=(_SESSION, _USER),
                summary="Turn memory off: nothing is kept and nothing recalled",
                examples=(("crucible memory off", "what is known stays, and can be forgotten"),),
            ),
            Command(
                "summaries",
                show_summaries,
                options=(_USER, JSON),
                summary="Show what long conversations were cut down to",
                examples=(("crucible memory summaries", "the latest first"),),
            ),
            Command(
                "recall",
                recall,
                operands=(Operand("QUERY", "what a turn would say", arity="many"),),
                options=(
                    Option("budget", f"tokens (default: {_BUDGET_TOKENS})", metavar="N"),
                    _USER,
                    JSON,
                ),
                summary="Show what would be recalled, and why",
                examples=(("crucible memory recall 'where do I live?'", "with the reason"),),
            ),
        ),
    ),
)
