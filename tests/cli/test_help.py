"""Help: what is listed exists, what exists is explained."""

from __future__ import annotations

import re

import pytest

from crucible.cli import table
from crucible.cli.commands.completion import commands
from crucible.cli.grammar import Command
from crucible.cli.helping import command_help, program_help
from crucible.cli.main import find_command, main

ALL = [(command, path) for command, path in commands() if path[0] not in table.ALIASES]
PROMISED = {
    "run", "create", "start", "stop", "exec", "attach", "remove", "list", "inspect", "logs", "stats",
    "cp", "diff", "apply", "pause", "resume", "snapshot", "volume", "fork", "image", "ports", "prune", "setup",
    "doctor", "demo", "version", "system", "completion", "detect", "config", "open", "network", "serve", "token",
    "daemon", "memory", "runs", "budget", "skill", "chat", "ask", "link", "user",
}  # fmt: skip


def test_every_promised_command_is_there() -> None:
    assert set(table.MODULES) == PROMISED


def test_the_table_is_what_the_modules_have() -> None:
    for name in table.MODULES:
        assert find_command(name).name == name


def test_no_module_has_a_command_that_the_table_does_not_name() -> None:
    from importlib import import_module

    found = {
        command.name
        for module in set(table.MODULES.values())
        for command in import_module(f"crucible.cli.commands.{module}").COMMANDS
    }
    assert found == set(table.MODULES)


def test_the_programs_help_lists_every_command_and_alias() -> None:
    text = program_help()
    for name, summary in table.SUMMARIES.items():
        assert re.search(rf"^  {name}\b.* {re.escape(summary)}$", text, re.MULTILINE)
    for alias in table.ALIASES:
        assert f", {alias} " in text


@pytest.mark.parametrize(
    "command, path", ALL, ids=lambda value: str(value) if isinstance(value, tuple) else ""
)
def test_every_command_explains_itself_with_an_example(
    command: Command, path: tuple[str, ...]
) -> None:
    text = command_help(command)
    assert text.split("\n", 1)[0].rstrip(".")
    assert f"Usage: crucible {' '.join(path)}" in text
    assert "\nExamples:\n" in text
    for option in command.options:
        assert f"--{option.long}" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    "command, path", ALL, ids=lambda value: str(value) if isinstance(value, tuple) else ""
)
def test_no_command_has_two_options_of_one_name(command: Command, path: tuple[str, ...]) -> None:
    longs = [option.long for option in command.options]
    shorts = [option.short for option in command.options if option.short]
    assert len(longs) == len(set(longs))
    assert len(shorts) == len(set(shorts))
    assert "help" not in longs
    assert "h" not in shorts


def test_every_list_can_be_json() -> None:
    for name in ("list", "inspect", "stats", "ports", "diff", "fork", "prune", "doctor", "version"):
        assert "json" in {option.long for option in find_command(name).options}
    for name, inner in (("snapshot", "list"), ("system", "df")):
        command = next(sub for sub in find_command(name).subcommands if sub.name == inner)
        assert "json" in {option.long for option in command.options}


def test_the_default_time_limit_of_run_is_shown() -> None:
    assert "default: 1h" in command_help(find_command("run"))


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["-h"], ["help"], ["help", "run"], ["run", "--help"], ["rm", "-h"]]
)
def test_help_goes_to_stdout_and_succeeds(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "Usage: crucible" in shown.out
    assert shown.err == ""
