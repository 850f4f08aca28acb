"""The unit for systemd: what is committed is what is written, and no path can say more than a path."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.pages import ROOT

from crucible.cli.commands import daemon_unit
from crucible.cli.main import main
from crucible.errors import Refused

COMMAND = (
    "/opt/crucible/bin/python",
    "-P",
    "-m",
    "crucible.owner_main",
    "--daemon",
    "--foreground",
)


def test_the_unit_that_is_committed_is_the_one_that_is_written() -> None:
    text = daemon_unit.unit_text(COMMAND, "/var/lib/crucible", is_system=True)
    assert (ROOT / "deploy/systemd/crucible.service").read_text() == text


def test_stopping_the_unit_leaves_the_machines_alone() -> None:
    assert "\nKillMode=process\n" in daemon_unit.unit_text(COMMAND, "/home", is_system=False)


def test_a_path_is_one_word_whatever_is_in_it() -> None:
    text = daemon_unit.unit_text(['/a b/%h/$HOME/py"thon\\'], "/x %u $y", is_system=False)
    assert 'ExecStart="/a b/%%h/$$HOME/py\\"thon\\\\"\n' in text
    assert 'Environment="CRUCIBLE_HOME=/x %%u $y"\n' in text


@pytest.mark.parametrize("home", ["/a\nExecStartPre=/bin/evil", "/a\x1b[2J", "/a\udc80"])
def test_a_path_that_would_begin_a_line_of_its_own_is_refused(home: str) -> None:
    with pytest.raises(Refused):
        daemon_unit.unit_text(COMMAND, home, is_system=True)


def test_it_is_written_for_the_user_and_told_how_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path / "state"))
    assert main(["daemon", "install"]) == 0
    path = tmp_path / "config/systemd/user" / daemon_unit.UNIT_NAME
    assert f"CRUCIBLE_HOME={tmp_path}/state" in path.read_text()
    assert "systemctl --user enable --now crucible" in capsys.readouterr().err
    assert main(["daemon", "install", "--print"]) == 0
    assert capsys.readouterr().out == path.read_text()
    assert not (tmp_path / "state").exists()


def test_where_nothing_can_be_written_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("a file")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert main(["daemon", "install"]) == 126
