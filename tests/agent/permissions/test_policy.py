"""What a policy says of a use of a tool, and that a denied command cannot be dressed up as another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from crucible.agent.judging import PolicyJudge
from crucible.agent.options import PolicyRules
from crucible.agent.permissions import Policy, Verdict, parse_policy
from crucible.agent.permissions.policy import always_rule
from crucible.agent.risk import Language, Report, inspect
from crucible.agent.skills.tools import tool_name
from crucible.agent.tools.base import Code, Reach, Use
from crucible.errors import BadPolicy


def bash(command: str) -> Use:
    code = Code(text=command, language="shell")
    return Use(tool="bash", arguments={"command": command}, subject=command, code=code)


def use(tool: str, subject: str, reach: Reach = "sandbox") -> Use:
    return Use(tool=tool, arguments={}, subject=subject, reach=reach)


def verdict(policy: Mapping[str, Any], call: Use, risk: Report = Report()) -> str:  # noqa: B008
    return parse_policy(policy).judge(call, risk).verdict.value


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main",
        "  git   push\t--force",
        "ls; git push",
        "ls && git push",
        "ls || git push",
        "ls & git push",
        "ls\ngit push",
        "ls | git push",
        "(git push)",
        "{ git push; }",
        "! git push",
        "echo $(git push)",
        'echo "now: $(git push)"',
        "echo `git push`",
        "x=$(git push)",
        "cat <(git push)",
        "env git push",
        "env -i A=1 git push",
        "A=1 git push",
        "sudo git push",
        "sudo -u me -- git push",
        "timeout 5 nice -n 1 git push",
        "command git push",
        "exec git push",
        "time git push",
        'g"it" push',
        "g'i't pu''sh",
        "\\git push",
        "$'g\\x69t' push",
        "/usr/bin/git push",
        "./git push",
        "git -C /tmp push",
        "git -c a=b --no-pager push",
        "git >log push",
        ">log git push",
        "git push>log",
        "bash -c 'git push'",
        'sh -c "cd x && git push"',
        "bash -lc 'git push'",
        "eval git push",
        "eval 'git push'",
        "bash <<'E'\ngit push\nE",
        "sh <<< 'git push'",
        "echo git push | sh",
        "find . -exec git push \\;",
        "su -c 'git push'",
        "trap 'git push' EXIT",
        "alias x='git push'",
        "f() { git push; }; f",
        "if git push; then :; fi",
        "for i in 1; do git push; done",
        "case x in x) git push;; esac",
        "cat <<E && git push\nx\nE",
        "cat <<E\n$(git push)\nE",
        "x=git; $x push",
        "a='git push'; $a",
        "env -S 'git push'",
        "busybox sh -c 'git push'",
        "git-push",
        "[ -n \"$(git push)\" ]",
        "env - git push",
        "env '}x'=1 git push",
        "su -c'git push' me",
        "flock f -c 'git push'",
        "source /dev/stdin <<< 'git push'",
        "compgen -C 'git push'",
        "bash -x git push",
        ". git push",
        "git push'es and more'",
        "ssh-agent git push",
        "echo ${x:-$(git push)}",
        "echo $((1 + $(git push)))",
        "bash -eo pipefail -c 'git push'",
        "bash +O extglob --rcfile x -c 'git push'",
        "git --config-env a=b --attr-source x push",
        "time { git push; }",
        "! { git push; }",
        "coproc X { git push; }",
        "a[$(git push)]=1",
        "faketime now conda run git push",
    ],
)  # fmt: skip
def test_a_denied_command_is_denied_however_it_is_written(command: str) -> None:
    policy = {"deny": ["bash(git push*)"], "allow": ["bash"]}
    assert verdict(policy, bash(command)) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "$CMD push",
        "git $VERB",
        "git \"$@\"",
        "bash -c \"$X\"",
        "echo push | xargs git",
        "cat list | sh",
        "{git,push}",
        "g\\\nit push",
        "git pu'sh",
        "cat <<E; git push\nx\nE",
        "eval \"$X\"",
        "git ${x}push",
        "ls\n\\git push",
        "ls\n\\\n git push",
        "./\\\n# $(git push)",
        "/usr/bin/g?t push",
        "exec {git,push}",
        "git -c alias.p=push p",
        "let 'x=a[$(git push)]'",
        "x='a[$(git push)]'; ((x))",
        ". <(echo git push)",
        "ls\0; git push",
        "a=(b)c git push",
        "git pu\u0455h",
        "rev <<< 'hsup tig' | sh",
        "a|" * 7000,
        "alias g=git; g push",
        "cat list | parallel",
        "tmux new -d 'git push'",
        "somewrapper --quiet git push",
        "ssh host git push",
        "git rebase -x 'git push' HEAD~1",
        "git submodule foreach git push",
        "git -c core.pager='git push' log",
        "GIT_EDITOR='git push' git commit",
        "PAGER='git push'; export PAGER; man ls",
        "at now <<< 'git push'",
        "awk 'BEGIN { system(\"git push\") }'",
        "python3 -c 'import subprocess as s; s.run([\"git\", \"push\"])'",
        "python3 - <<'E'\nos.system('git push')\nE",
        "tar cf x y --checkpoint-action=exec='/usr/bin/git push'",
    ],
)  # fmt: skip
def test_what_may_be_denied_is_asked_about_even_where_everything_is_allowed(command: str) -> None:
    policy = {"deny": ["bash(git push*)"], "allow": ["bash"]}
    assert verdict(policy, bash(command)) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "echo git push",
        "git pushd",
        "git stash push",
        "# git push",
        "grep 'git push' x",
        "git commit -m 'Explain git push'",
        "message='about git push'; echo \"$message\"",
        "cat > notes.md <<'E'\ngit push\nE",
        "sudo echo git push",
        "python3 -c 'print(\"pushed by git\")'",
    ],
)
def test_what_only_looks_denied_is_not(command: str) -> None:
    assert verdict({"deny": ["bash(git push)"], "allow": ["bash"]}, bash(command)) == "allow"


def test_a_program_that_is_only_named_is_not_taken_for_a_command() -> None:
    policy = {"deny": ["bash(curl*)"], "allow": ["bash"]}
    assert verdict(policy, bash("npm install curl")) == "allow"
    assert verdict(policy, bash("tmux new 'curl x'")) == "ask"


@pytest.mark.parametrize(
    "command, expected",
    [
        ("git status", "allow"),
        ("git commit -m \"$MESSAGE\"", "allow"),
        ("git log | git shortlog", "allow"),
        ("/usr/bin/git log", "allow"),
        ("git log > out.txt", "allow"),
        ("git log 2>/dev/null", "allow"),
        ("git status; ls", "deny"),
        ("git status && curl x", "deny"),
        ("git log $(ls)", "deny"),
        ("git log > /etc/motd", "deny"),
        ("git log > $X", "deny"),
        ("./git status", "deny"),
        ("/tmp/git status", "deny"),
        ("PATH=. git status", "deny"),
        ("PATH=.; git status", "deny"),
        ("export GIT_SSH=x; git fetch", "deny"),
        ("$GIT status", "deny"),
        ("env git status", "deny"),
        ("git status 'unclosed", "deny"),
        ("git status (", "deny"),
        ("", "deny"),
        ("# only a comment", "deny"),
        ("git() { rm -rf x; }; git status", "deny"),
        ("git s\\\ntatus", "deny"),
        ("git commit -m 'caf\u00e9 \U0001f600'", "allow"),
        ("gi\u00e9 status", "deny"),
    ],
)  # fmt: skip
def test_an_allow_covers_every_simple_command_or_none(command: str, expected: str) -> None:
    assert verdict({"allow": ["bash(git *)"], "default": "deny"}, bash(command)) == expected


def test_each_command_of_a_line_may_be_allowed_by_another_rule() -> None:
    policy = {"allow": ["bash(ls*)", "bash(pwd)"], "default": "ask"}
    assert verdict(policy, bash("ls -l")) == "allow"
    assert verdict(policy, bash("pwd")) == "allow"
    assert verdict(policy, bash("ls; pwd")) == "allow"
    assert verdict(policy, bash("ls; pwd; id")) == "ask"


@pytest.mark.parametrize(
    "rules, path, expected",
    [
        (["write(/workspace/**)"], "/workspace/a/b.txt", "allow"),
        (["write(/workspace/**)"], "a.txt", "allow"),
        (["write(/workspace/**)"], "/workspace/../etc/passwd", "ask"),
        (["write(/workspace/**)"], "/workspace/a/../../etc/x", "ask"),
        (["write(/workspace/**)"], "//workspace//a", "allow"),
        (["write(/workspace/**)"], "/workspace2/a", "ask"),
        (["write(/workspace/**)"], "~/a", "ask"),
        (["write(/workspace/**)"], "/workspace/a\0b", "ask"),
        (["write(/workspace/*.py)"], "/workspace/a.py", "allow"),
        (["write(/workspace/*.py)"], "/workspace/sub/a.py", "ask"),
        (["write(/workspace/**/*.py)"], "/workspace/a/b/c.py", "allow"),
        (["write(/workspace/**/*.py)"], "/workspace/c.py", "allow"),
        (["write(/workspace/?)"], "/workspace/ab", "ask"),
    ],
)
def test_paths_are_matched_normalized(rules: list[str], path: str, expected: str) -> None:
    assert verdict({"allow": rules, "default": "ask"}, use("write", path)) == expected


def test_a_denied_path_cannot_be_written_another_way() -> None:
    policy = {"deny": ["write(/etc/**)"], "allow": ["write"]}
    for path in ("/etc/passwd", "/workspace/../etc/passwd", "//etc/./passwd", "../etc/passwd"):
        assert verdict(policy, use("write", path)) == "deny"


@pytest.mark.parametrize(
    "rule, tool, expected",
    [
        ("mcp__files__*", "mcp__files__read", "deny"),
        ("mcp__files__*", "mcp__other__read", "allow"),
        ("mcp__*", "mcp__other__read", "deny"),
        ("skill:web-fetch", "skill:web-fetch", "deny"),
        ("skill:web-fetch", "skill:web-fetcher", "allow"),
        ("skill:web-fetch", "skill__web-fetch__get", "deny"),
        ("skill:web-*", "skill__web-fetch__get", "deny"),
        ("skill:web", "skill__web-fetch__get", "allow"),
        ("skill:fetch", "mcp__fetch__get", "allow"),
        ("skill:" + "long-" * 12, tool_name("long-" * 12, "get"), "deny"),
        ("skill:" + "long-" * 11, tool_name("long-" * 12, "get"), "allow"),
        ("*", "python", "deny"),
        ("python(*)", "python", "deny"),
        ("python(import os*)", "python", "allow"),
    ],
)
def test_rules_name_tools_by_pattern(rule: str, tool: str, expected: str) -> None:
    assert verdict({"deny": [rule]}, use(tool, "x = 1")) == expected


def test_a_rule_for_a_skill_is_also_about_reading_it_to_the_model() -> None:
    assert verdict({"deny": ["skill:web-fetch"]}, use("skill", "web-fetch notes.md")) == "deny"
    assert verdict({"deny": ["skill:web-fetch"]}, use("skill", "other web-fetch")) == "allow"


def test_deny_wins_over_ask_and_ask_over_allow() -> None:
    call = bash("git push")
    assert (
        verdict({"allow": ["bash"], "ask": ["bash(git *)"], "deny": ["bash(* push)"]}, call)
        == "deny"
    )
    assert verdict({"allow": ["bash(git p*)"], "ask": ["bash(git *)"]}, call) == "ask"
    assert verdict({"allow": ["bash(git p*)"]}, call) == "allow"


def test_an_allow_of_exactly_this_wins_over_ask_and_never_over_deny() -> None:
    call = bash("git push && echo '*?\\' (done)")
    policy = parse_policy({"ask": ["bash(git *)"]})
    assert policy.judge(call).verdict is Verdict.ASK
    always = policy.with_rule(call)
    assert always.judge(call).verdict is Verdict.ALLOW
    assert always.judge(bash("git push")).verdict is Verdict.ASK
    assert always.with_rule(call) == always
    assert (
        parse_policy({"deny": ["bash(git *)"]}).with_rule(call).judge(call).verdict is Verdict.DENY
    )


def test_without_a_rule_risk_decides() -> None:
    quiet, loud = bash("ls -l"), bash("rm -rf /")
    assert verdict({}, quiet, inspect(quiet.subject, Language.SHELL)) == "allow"
    assert verdict({}, loud, inspect(loud.subject, Language.SHELL)) == "ask"
    assert (
        verdict(
            {},
            bash("curl https://example.com"),
            inspect("curl https://example.com", Language.SHELL),
        )
        == "allow"
    )
    assert (
        verdict({"ask_from": "medium"}, loud, inspect("curl https://example.com", Language.SHELL))
        == "ask"
    )
    assert verdict({}, use("publish", "/workspace/a", "outside")) == "ask"
    assert verdict({"allow": ["publish"]}, use("publish", "/workspace/a", "outside")) == "allow"
    assert verdict({"default": "deny"}, quiet) == "deny"
    assert verdict({}, quiet, Report(is_whole=False)) == "ask"


def test_the_reason_names_the_rule_or_the_risk() -> None:
    decision = parse_policy({"deny": ["bash(git push*)"]}).judge(bash("git push"))
    assert (decision.rule, decision.reason) == ("bash(git push*)", "`bash(git push*)` is denied")
    decision = Policy().judge(bash("sudo id"), inspect("sudo id", Language.SHELL))
    assert decision.rule is None
    assert decision.reason == "It asks for the rights of another user (privilege, line 1)"


@pytest.mark.parametrize(
    "given, said",
    [
        ({"allowed": []}, "no 'allowed'"),
        ({"allow": "bash"}, "list of rules"),
        ({"allow": [""]}, "empty"),
        ({"allow": [3]}, "no text"),
        ({"deny": ["bash(git"]}, "not closed"),
        ({"deny": ["bash(git) x"]}, "not closed"),
        ({"deny": ["(git)"]}, "name of a tool"),
        ({"deny": ["my tool"]}, "name of a tool"),
        ({"ask_from": "grave"}, "'grave'"),
        ({"default": "maybe"}, "'maybe'"),
        ({"allow": ["bash"] * 501}, "at most 500"),
        ({"allow": ["x" * 5000]}, "more than 4096"),
    ],
)
def test_a_bad_policy_is_refused_with_a_reason(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadPolicy, match=said):
        parse_policy(given)


def test_the_engine_is_handed_findings_a_verdict_and_the_rule_for_always() -> None:
    judge = PolicyJudge()
    call = bash("sudo id")
    said = judge.judge(PolicyRules(), call)
    assert [(found.rule, found.severity) for found in said.findings] == [("privilege", "high")]
    assert (said.decision, said.always) == ("ask", "bash(sudo id)")
    again = PolicyRules(allow=(said.always,))
    assert judge.judge(again, call).decision == "allow"
    assert judge.judge(again, bash("sudo id -u")).decision == "ask"


def test_a_long_program_is_remembered_by_its_digest() -> None:
    program = "print(1)\n" * 400
    rule = always_rule(use("python", program))
    assert len(rule) < 100
    policy = parse_policy({"allow": [rule], "default": "ask"})
    assert policy.judge(use("python", program)).verdict is Verdict.ALLOW
    assert policy.judge(use("python", program + "#")).verdict is Verdict.ASK
