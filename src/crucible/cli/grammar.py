"""What a command takes, and the words of a command line sorted by it. No meaning is looked for here.

Written by hand because the start of the program is part of its promise: argparse alone doubles it.
"""

from __future__ import annotations

from collections.abc import Callable

from crucible.cli.table import ALIASES
from crucible.errors import Refused, suggestion

Run = Callable[["Arguments"], int]


class BadUsage(Refused):
    """The words do not fit the command."""

    code = "bad-usage"


class HelpWanted(Exception):
    """`--help` was met."""

    def __init__(self, command: Command) -> None:
        super().__init__(command.path)
        self.command = command


class Option:
    """`--long`, perhaps `-s`; with a metavar it takes a value."""

    __slots__ = ("choices", "help", "is_repeatable", "long", "metavar", "short")

    def __init__(
        self,
        long: str,
        help: str,
        *,
        short: str = "",
        metavar: str = "",
        is_repeatable: bool = False,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.long = long
        self.short = short
        self.metavar = metavar
        self.help = help
        self.is_repeatable = is_repeatable
        self.choices = choices


JSON = Option("json", "print JSON")


class Operand:
    """A word without a dash. The last may be one of `many`, or begin a guest's command: then all `rest` is its."""

    __slots__ = ("arity", "complete", "help", "name")

    def __init__(self, name: str, help: str, *, arity: str = "one", complete: str = "") -> None:
        self.name = name
        self.help = help
        self.arity = arity  # one, optional, many, any, rest, tail (a rest that may be missing)
        self.complete = complete  # sandbox, snapshot, image, path or nothing

    @property
    def is_needed(self) -> bool:
        return self.arity in ("one", "many", "rest")

    @property
    def is_last(self) -> bool:
        return self.arity in ("many", "any", "rest", "tail")


class Command:
    """Without `run` it only groups its subcommands; with it, a first word that names none is an operand."""

    __slots__ = (
        "examples",
        "is_group",
        "name",
        "notes",
        "operands",
        "options",
        "parent",
        "program",
        "run",
        "subcommands",
        "summary",
    )

    def __init__(
        self,
        name: str,
        run: Run | None = None,
        *,
        operands: tuple[Operand, ...] = (),
        options: tuple[Option, ...] = (),
        subcommands: tuple[Command, ...] = (),
        examples: tuple[tuple[str, str], ...] = (),
        notes: str = "",
        summary: str = "",
        program: str = "crucible",
    ) -> None:
        self.name = name
        self.program = program
        self.is_group = run is None
        self.run: Run = run or _nothing
        self.operands = operands
        self.options = options
        self.subcommands = subcommands
        self.examples = examples
        self.notes = notes
        self.summary = summary
        self.parent = ""
        for command in subcommands:
            command.parent = name

    @property
    def path(self) -> str:
        return f"{self.parent} {self.name}".strip()

    @property
    def called(self) -> str:
        return f"{self.program} {self.path}"

    @property
    def usage(self) -> str:
        words = [self.called]
        if self.options:
            words.append("[options]")
        for operand in self.operands:
            shown = {
                "one": operand.name,
                "optional": f"[{operand.name}]",
                "many": f"{operand.name}...",
                "any": f"[{operand.name}...]",
                "rest": f"[--] {operand.name}...",
                "tail": f"[[--] {operand.name}...]",
            }
            words.append(shown[operand.arity])
        if self.is_group:
            words.append("COMMAND")
        return " ".join(words)


class Arguments:
    """The words of one command line, by the names of what they were given for."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._values: dict[str, list[str]] = {}
        self._words: list[str] = []

    def flag(self, long: str) -> bool:
        return long in self._values

    def value(self, long: str) -> str | None:
        """What was given last."""
        given = self._values.get(long)
        return given[-1] if given else None

    def values(self, long: str) -> list[str]:
        return self._values.get(long, [])

    def word(self, name: str) -> str:
        return self._words[self._index(name)]

    def optional_word(self, name: str) -> str | None:
        index = self._index(name)
        return self._words[index] if index < len(self._words) else None

    def words(self, name: str) -> list[str]:
        return self._words[self._index(name) :]

    def note(self, option: Option, value: str) -> None:
        if option.choices and value not in option.choices:
            known = ", ".join(option.choices)
            raise BadUsage(f"{value!r} is no value for --{option.long}", hint=f"One of: {known}")
        self._values.setdefault(option.long, []).append(value)

    def add_word(self, word: str) -> None:
        self._words.append(word)

    @property
    def count(self) -> int:
        return len(self._words)

    def _index(self, name: str) -> int:
        return [operand.name for operand in self.command.operands].index(name)


def _nothing(arguments: Arguments) -> int:
    """Of a group: parsing never ends at one."""
    raise LookupError(arguments.command.path)


def parse(command: Command, words: list[str]) -> Arguments:
    """Raises BadUsage, and HelpWanted where `--help` stands before a guest's command begins."""
    if command.subcommands:
        chosen = _subcommand(command, words)
        if chosen is not None:
            return parse(chosen, words[1:])
    arguments = Arguments(command)
    queue = list(reversed(words))
    has_ended = False
    while queue:
        word = queue.pop()
        if not has_ended and word == "--":
            has_ended = True
        elif not has_ended and word.startswith("--"):
            _take_long(arguments, word, queue)
        elif not has_ended and word.startswith("-") and word != "-":
            _take_short(arguments, word, queue)
        else:
            _take_word(arguments, word)
            if _begins_rest(arguments):
                for left in reversed(queue):
                    arguments.add_word(left)
                break
    _check_complete(arguments)
    return arguments


def _subcommand(command: Command, words: list[str]) -> Command | None:
    for candidate in command.subcommands:
        if words and ALIASES.get(words[0], words[0]) == candidate.name:
            return candidate
    if not command.is_group:
        return None
    if words and words[0] in ("-h", "--help"):
        raise HelpWanted(command)
    names = [candidate.name for candidate in command.subcommands]
    if not words:
        raise BadUsage(
            f"`{command.called}` needs to know what to do",
            hint=f"One of: {', '.join(names)}",
        )
    raise BadUsage(
        f"`{command.called}` has no command {words[0]!r}", hint=suggestion(words[0], names)
    )


def _take_long(arguments: Arguments, word: str, queue: list[str]) -> None:
    name, equals, value = word[2:].partition("=")
    if name == "help" and not equals:
        raise HelpWanted(arguments.command)
    option = _find_long(arguments.command, name)
    if not option.metavar:
        if equals:
            raise BadUsage(f"--{name} takes no value")
        arguments.note(option, "")
    else:
        arguments.note(option, value if equals else _next(option, f"--{name}", queue))


def _take_short(arguments: Arguments, word: str, queue: list[str]) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter == "h":
            raise HelpWanted(arguments.command)
        option = _find_short(arguments.command, letter)
        if not option.metavar:
            arguments.note(option, "")
            continue
        value = letters.removeprefix("=") if letters else _next(option, f"-{letter}", queue)
        arguments.note(option, value)
        return


def _find_long(command: Command, name: str) -> Option:
    for option in command.options:
        if option.long == name:
            return option
    known = [f"--{option.long}" for option in command.options]
    raise _no_such_option(command, f"--{name}", known)


def _find_short(command: Command, letter: str) -> Option:
    for option in command.options:
        if option.short == letter:
            return option
    raise _no_such_option(command, f"-{letter}", [])


def _no_such_option(command: Command, name: str, known: list[str]) -> BadUsage:
    hint = suggestion(name, known, f"See `{command.called} --help`")
    return BadUsage(f"`{command.called}` has no option {name!r}", hint=hint)


def _next(option: Option, name: str, queue: list[str]) -> str:
    if not queue:
        raise BadUsage(f"{name} needs a value", hint=f"Write {name} {option.metavar}")
    return queue.pop()


def _take_word(arguments: Arguments, word: str) -> None:
    operands = arguments.command.operands
    if arguments.count >= len(operands) and not (operands and operands[-1].is_last):
        raise BadUsage(
            f"`{arguments.command.called}` does not take the word {word!r}",
            hint=f"Usage: {arguments.command.usage}",
        )
    arguments.add_word(word)


def _begins_rest(arguments: Arguments) -> bool:
    operands = arguments.command.operands
    return operands[-1].arity in ("rest", "tail") and arguments.count == len(operands)


def _check_complete(arguments: Arguments) -> None:
    operands = arguments.command.operands
    if arguments.count < len(operands) and operands[arguments.count].is_needed:
        raise BadUsage(
            f"{operands[arguments.count].name} is missing: {operands[arguments.count].help}",
            hint=f"Usage: {arguments.command.usage}",
        )
