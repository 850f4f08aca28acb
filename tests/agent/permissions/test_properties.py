"""What holds of permission rules whatever the pattern and whatever the command."""

from __future__ import annotations

from fnmatch import translate
from re import compile as compile_expression

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crucible.agent.permissions import Verdict, escape, parse_policy
from crucible.agent.permissions.commands import split
from crucible.agent.permissions.patterns import compile_pattern
from crucible.agent.permissions.policy import always_rule
from crucible.agent.risk.places import HOLE
from crucible.agent.tools.base import Use

TEXTS = st.text(max_size=60)
ODD = st.text(alphabet="ab*?\\()[]{}=' \"\n/.$`;|&~", max_size=30)
WORDS = st.sampled_from(
    ["ls", "-l", "git", "push", "a.txt", "'a b'", '"x"', "$X", "-m", "/bin/ls", "*.py", "status"]
)
NAMES = st.sampled_from(["ls", "git", "/bin/ls", "make", "g'i't", '"cp"'])
COMMANDS = st.builds(
    lambda name, words: " ".join([name, *words]), NAMES, st.lists(WORDS, max_size=4)
)
JOINTS = st.sampled_from(["; ", " && ", " || ", " | ", "\n", " & "])
DRESSES = st.sampled_from(
    [
        *("{}", "env {}", "sudo {}", "({})", "echo $({})", "bash -c '{}'", "timeout 3 {}", "! {}", "A=1 {}"),
        *("if {}; then :; fi", "x=$({})", "cat <({})", 'echo "$({})"', "time {}", "nohup {} &", "eval '{}'"),
        *("while {}; do :; done", "f() {{ {}; }}", "{{ {}; }}", "sh <<< '{}'", "find . -exec {} \\;"),
    ]
)  # fmt: skip
PATTERNS = st.text(alphabet="lsgit push*?-.a", min_size=1, max_size=12)


def bash(command: str) -> Use:
    return Use(tool="bash", arguments={}, subject=command)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(PATTERNS, max_size=4),
    st.lists(PATTERNS, max_size=4),
    COMMANDS,
    DRESSES,
    COMMANDS,
    JOINTS,
)
def test_deny_always_wins(
    allows: list[str], asks: list[str], denied: str, dress: str, other: str, joint: str
) -> None:
    assume("$X" not in denied and "'" not in denied)
    policy = parse_policy(
        {
            "allow": ["bash", "*", *(f"bash({text})" for text in allows)],
            "ask": [f"bash({text})" for text in asks],
            "deny": [f"bash({escape(split(denied).commands[0].forms[0])})"],
        }
    )
    for command in (dress.format(denied), other + joint + dress.format(denied)):
        assert policy.judge(bash(command)).verdict is Verdict.DENY


@settings(max_examples=150, deadline=None, derandomize=True)
@given(PATTERNS, COMMANDS, COMMANDS, JOINTS, DRESSES)
def test_an_allow_lets_no_other_command_through(
    pattern: str, covered: str, other: str, joint: str, dress: str
) -> None:
    policy = parse_policy({"allow": [f"bash({pattern})"], "default": "deny"})
    assume(policy.judge(bash(other)).verdict is Verdict.DENY)
    for command in (covered + joint + dress.format(other), dress.format(other) + joint + covered):
        assert policy.judge(bash(command)).verdict is Verdict.DENY


@settings(max_examples=200, deadline=None, derandomize=True)
@given(TEXTS | ODD, TEXTS | ODD)
def test_an_escaped_text_matches_itself_and_nothing_else(text: str, other: str) -> None:
    pattern = compile_pattern(escape(text))
    assert pattern.matches(text)
    assert pattern.literal == text
    assert pattern.matches(other) is (text == other)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from(["bash", "python", "write", "mcp__a__b", "odd(name"]), TEXTS | ODD, TEXTS | ODD
)
def test_always_allows_this_and_nothing_else(tool: str, subject: str, other: str) -> None:
    call = Use(tool=tool, arguments={}, subject=subject)
    policy = parse_policy({"allow": [always_rule(call)], "ask": ["*"], "default": "ask"})
    assert policy.judge(call).verdict is Verdict.ALLOW
    different = Use(tool=tool, arguments={}, subject=other)
    assume(other != subject)
    assert policy.judge(different).verdict is Verdict.ASK
    assert policy.judge(Use(tool=tool + "x", arguments={}, subject=subject)).verdict is Verdict.ASK


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(alphabet="ab*?/", max_size=14), st.text(alphabet="ab/", max_size=14))
def test_patterns_of_texts_are_those_of_the_shell(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).matches(text) is bool(
        compile_expression(translate(pattern)).match(text)
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.text(alphabet="ab*?", max_size=10),
    st.text(alphabet="ab", max_size=8),
    st.text(alphabet="ab", max_size=3),
)
def test_what_matches_could_match_when_a_part_is_unknown(
    pattern: str, text: str, part: str
) -> None:
    compiled = compile_pattern(pattern)
    for at in range(len(text) + 1):
        if compiled.matches(text[:at] + part + text[at:]):
            assert compiled.could_match(text[:at] + HOLE + text[at:])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(TEXTS | ODD)
def test_no_command_line_is_too_odd(line: str) -> None:
    split(line)


def test_a_hostile_pattern_takes_no_time() -> None:
    pattern = compile_pattern("*a" * 200 + "b")
    assert not pattern.matches("a" * 2000)
    assert not pattern.could_match("a" * 500)
    assert not compile_pattern("**/a" * 100 + "/b").matches_path("/a" * 300)
