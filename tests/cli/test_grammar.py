"""Words sorted by what a command takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.cli.grammar import Arguments, BadUsage, Command, HelpWanted, Operand, Option, parse


def _nothing(arguments: Arguments) -> int:
    return 0


EXEC = Command(
    "exec",
    _nothing,
    operands=(Operand("NAME", "the sandbox"), Operand("CMD", "the command", arity="rest")),
    options=(
        Option("tty", "a terminal", short="t"),
        Option("interactive", "input", short="i"),
        Option("env", "a variable", short="e", metavar="K=V", is_repeatable=True),
        Option("mode", "one of two", metavar="MODE", choices=("fast", "safe")),
    ),
)
REMOVE = Command(
    "remove",
    _nothing,
    operands=(Operand("NAME", "the sandboxes", arity="many"),),
    options=(Option("force", "force", short="f"),),
)
SNAPSHOT = Command(
    "snapshot",
    _nothing,
    operands=(Operand("NAME", "sandbox"), Operand("TAG", "tag")),
    subcommands=(
        Command("list", _nothing),
        Command("create", _nothing, operands=EXEC.operands[:1]),
    ),
)
SYSTEM = Command("system", subcommands=(Command("df", _nothing),))


def test_the_guests_options_are_not_ours() -> None:
    arguments = parse(EXEC, ["-t", "box", "ls", "-t", "--env", "x", "--"])
    assert arguments.word("NAME") == "box"
    assert arguments.words("CMD") == ["ls", "-t", "--env", "x", "--"]
    assert arguments.values("env") == []


def test_options_may_stand_between_the_name_and_the_command() -> None:
    arguments = parse(EXEC, ["box", "-it", "bash", "-i"])
    assert arguments.flag("tty")
    assert arguments.flag("interactive")
    assert arguments.words("CMD") == ["bash", "-i"]


def test_two_dashes_end_our_options() -> None:
    arguments = parse(EXEC, ["box", "--", "--tty"])
    assert arguments.words("CMD") == ["--tty"]
    assert not arguments.flag("tty")


@pytest.mark.parametrize(
    "words", [["-e", "A=1"], ["-eA=1"], ["-e=A=1"], ["--env", "A=1"], ["--env=A=1"], ["-te", "A=1"]]
)
def test_a_value_may_be_written_in_every_usual_way(words: list[str]) -> None:
    assert parse(EXEC, [*words, "box", "true"]).values("env") == ["A=1"]


def test_a_repeated_option_keeps_all_its_values_in_order() -> None:
    arguments = parse(EXEC, ["-e", "A=1", "--env", "B=2", "box", "true"])
    assert arguments.values("env") == ["A=1", "B=2"]
    assert arguments.value("env") == "B=2"


def test_options_stand_anywhere_among_names() -> None:
    arguments = parse(REMOVE, ["a", "-f", "b", "-"])
    assert arguments.words("NAME") == ["a", "b", "-"]
    assert arguments.flag("force")


@pytest.mark.parametrize(
    "command, words, said",
    [
        (EXEC, [], "NAME is missing"),
        (EXEC, ["box"], "CMD is missing"),
        (EXEC, ["box", "--"], "CMD is missing"),
        (EXEC, ["--evn", "x", "box", "ls"], "no option '--evn'"),
        (EXEC, ["-x", "box", "ls"], "no option '-x'"),
        (EXEC, ["--env"], "--env needs a value"),
        (EXEC, ["--tty=yes", "box", "ls"], "takes no value"),
        (EXEC, ["--mode", "slow", "box", "ls"], "'slow' is no value"),
        (REMOVE, [], "NAME is missing"),
        (SNAPSHOT, ["a", "b", "c"], "does not take the word 'c'"),
        (SYSTEM, [], "needs to know what to do"),
        (SYSTEM, ["dff"], "no command 'dff'"),
    ],
)
def test_words_that_do_not_fit_are_refused(command: Command, words: list[str], said: str) -> None:
    with pytest.raises(BadUsage) as caught:
        parse(command, words)
    assert said in caught.value.message
    assert caught.value.exit_status == 126


@pytest.mark.parametrize(
    "command, words, meant",
    [(EXEC, ["--evn"], "--env"), (REMOVE, ["--froce"], "--force"), (SYSTEM, ["dff"], "df")],
)
def test_what_was_probably_meant_is_suggested(
    command: Command, words: list[str], meant: str
) -> None:
    with pytest.raises(BadUsage) as caught:
        parse(command, words)
    assert caught.value.hint == f"Did you mean `{meant}`?"


def test_a_subcommand_goes_before_an_operand_of_its_name() -> None:
    assert parse(SNAPSHOT, ["list"]).command.path == "snapshot list"
    assert parse(SNAPSHOT, ["ls"]).command.path == "snapshot list"
    assert parse(SNAPSHOT, ["create", "list"]).word("NAME") == "list"
    assert parse(SNAPSHOT, ["box", "list"]).command is SNAPSHOT


@pytest.mark.parametrize(
    "words", [["--help"], ["-h"], ["box", "-h"], ["-th"], ["--env", "A=1", "-h"]]
)
def test_help_is_found_before_the_command_begins(words: list[str]) -> None:
    with pytest.raises(HelpWanted):
        parse(EXEC, words)


def test_help_after_the_command_began_is_the_guests() -> None:
    assert parse(EXEC, ["box", "ls", "--help"]).words("CMD") == ["ls", "--help"]


@given(st.lists(st.text()))
def test_any_words_are_parsed_or_refused(words: list[str]) -> None:
    for command in (EXEC, REMOVE, SNAPSHOT, SYSTEM):
        try:
            parse(command, words)
        except (BadUsage, HelpWanted):
            continue


@given(st.lists(st.text(), min_size=1))
def test_a_command_after_two_dashes_passes_unchanged(argv: list[str]) -> None:
    assert parse(EXEC, ["box", "--", *argv]).words("CMD") == argv
