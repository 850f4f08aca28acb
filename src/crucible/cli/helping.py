"""Help as text: of the whole program, and of one command."""

from __future__ import annotations

from crucible.cli import table
from crucible.cli.grammar import Command, Operand, Option

_INTRODUCTION = """\
Crucible runs commands in microVMs: machines with a kernel of their own, started in
a blink, kept apart from this host, gone when you are done.

Usage: crucible COMMAND [options]

Try:   crucible run python3 -c 'print(1)'
"""

_ENDING = """\
`crucible COMMAND --help` explains a command and shows examples.
State is kept in CRUCIBLE_HOME (by default ~/.local/share/crucible).
"""


def program_help() -> str:
    parts = [_INTRODUCTION]
    for title, rows in table.GROUPS:
        parts.append(f"\n{title}:\n")
        parts.extend(f"  {_with_alias(name):<14}{summary}\n" for name, _, summary in rows)
    parts.append(f"\n{_ENDING}")
    return "".join(parts)


def command_help(command: Command) -> str:
    summary = command.summary or table.SUMMARIES.get(command.name, "")
    parts = [f"{summary}.\n\nUsage: {command.usage}\n"]
    parts.extend(
        f"       crucible {sub.path} ...\n" for sub in command.subcommands if not command.is_group
    )
    parts.extend(_section("Arguments", [_operand_row(operand) for operand in command.operands]))
    parts.extend(
        _section("Commands", [(_with_alias(sub.name), sub.summary) for sub in command.subcommands])
    )
    parts.extend(_section("Options", [_option_row(option) for option in command.options]))
    if command.notes:
        parts.append(f"\n{command.notes.strip()}\n")
    if command.examples:
        parts.append("\nExamples:\n")
        for line, meaning in command.examples:
            parts.append(f"  {line}\n      {meaning}\n")
    return "".join(parts)


def _with_alias(name: str) -> str:
    aliases = [alias for alias, target in table.ALIASES.items() if target == name]
    return ", ".join((name, *aliases))


def _operand_row(operand: Operand) -> tuple[str, str]:
    return operand.name, operand.help


def _option_row(option: Option) -> tuple[str, str]:
    names = f"-{option.short}, --{option.long}" if option.short else f"    --{option.long}"
    text = option.help
    if option.choices:
        text += f" (one of: {', '.join(option.choices)})"
    return f"{names} {option.metavar}".rstrip(), text


def _section(title: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    width = min(max(len(name) for name, _ in rows) + 2, 28)
    lines = [f"\n{title}:\n"]
    for name, text in rows:
        first, *rest = _wrapped(text, 96 - width) or [""]
        if len(name) + 2 > width:
            lines.append(f"  {name}\n  {'':<{width}}{first}\n")
        else:
            lines.append(f"  {name:<{width}}{first}\n")
        lines.extend(f"  {'':<{width}}{line}\n" for line in rest)
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
