"""What a person is shown at the terminal before they approve a call: all of it, and nothing that is not seen."""

from __future__ import annotations

from typing import Any

import pytest

from crucible.cli.talking.approving import show
from crucible_client import Approval


def _approval(subject: str, **arguments: Any) -> Approval:
    return Approval(
        id="apr-1",
        session="s",
        tool="write",
        subject=subject,
        arguments=arguments,
        where="a sandbox",
        reason="",
        findings=(),
        expires_at=0.0,
    )


def test_all_arguments_are_shown_and_none_of_them_acts_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    content = "echo \x1b[8mhidden\u202e\u200b\r\nrm -rf /\u2028\x9b2J"
    show(_approval("/workspace/a.sh", path="a.sh", content=content))
    said = capsys.readouterr().err
    assert "    /workspace/a.sh\n" in said
    assert (
        "  content: \n    echo \\x1b[8mhidden\\u202e\\u200b\n    rm -rf /\\u2028\\x9b2J\n" in said
    )


def test_the_end_of_what_is_long_is_not_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    show(_approval("x" * 100_000 + "; rm -rf /"))
    assert capsys.readouterr().err.endswith("xxx; rm -rf /\n")
    show(_approval("a.sh", content="x" * 100_000 + "; rm -rf /"))
    said = capsys.readouterr().err
    assert "[… 80010 characters are not shown here …]" in said
    assert said.endswith("xxx; rm -rf /\n")


def test_arguments_that_are_the_subject_are_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    show(_approval('{"a": 1, "b": "x"}', b="x", a=1))
    assert capsys.readouterr().err.count('"a"') == 1
    show(_approval("ls", command="ls", timeout_s=9))
    said = capsys.readouterr().err
    assert said.count("ls") == 1
    assert "  timeout_s: 9\n" in said
