"""`crucible budget`, on a database of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crucible.cli.main import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CRUCIBLE_DATABASE", raising=False)
    return tmp_path


def crucible(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(list(words))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_limits_are_set_shown_and_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    assert crucible(capsys, "budget", "list")[1] == ""
    assert crucible(capsys, "budget", "set", "user:ada", "usd=2.5/month", "tokens=9")[0] == 0
    status, out, _ = crucible(capsys, "budget", "show", "user:ada", "--json")
    assert status == 0
    found = {(one["measure"], one["period"]): one["limit"] for one in json.loads(out)}
    assert found == {("usd", "month"): 2_500_000, ("tokens", "total"): 9}
    crucible(capsys, "budget", "clear", "user:ada", "usd")
    _, out, _ = crucible(capsys, "budget", "show", "user:ada")
    assert out.splitlines()[1].split()[:4] == ["user:ada", "tokens", "total", "9"]
    crucible(capsys, "budget", "clear", "user:ada")
    assert "Nothing limits user:ada" in crucible(capsys, "budget", "show", "user:ada")[2]


def test_a_user_is_given_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert crucible(capsys, "budget", "plan", "ada", "free")[0] == 0
    _, out, _ = crucible(capsys, "budget", "list", "--json")
    assert [(one["scope"], one["plan"]) for one in json.loads(out)] == [("user:ada", "free")]
    assert len(json.loads(crucible(capsys, "budget", "show", "user:ada", "--json")[1])) > 3
    crucible(capsys, "budget", "plan", "ada", "none")
    assert json.loads(crucible(capsys, "budget", "show", "user:ada", "--json")[1]) == []


@pytest.mark.parametrize(
    "words",
    [("set", "ada", "tokens=1"), ("set", "user:ada", "tokens"), ("set", "user:ada", "coins=1"),
     ("set", "user:ada", "tokens=1/week"), ("set", "session:s", "tokens=1/day"), ("plan", "ada", "fre"),
     ("set", "user:ada", "tokens=-1"), ("clear", "user:ada", "coins")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    status, out, err = crucible(capsys, "budget", *words)
    assert (status, out) == (126, "")
    assert err.startswith("error: ")
