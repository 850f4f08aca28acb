"""Preparing a machine begins with saying what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible import assemble, system
from crucible.config import Config
from crucible.diagnosis.setup import check_agent, check_packages, run_setup
from crucible.errors import AgentMissing, PrerequisiteMissing
from crucible.images.report import silent


def test_missing_packages_stop_it_before_anything_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrerequisiteMissing) as raised:
        run_setup(Config(home=tmp_path / "home"), silent)
    assert "bubblewrap (jails the machines)" in raised.value.message
    assert ("apt-get install" in raised.value.hint) is system.has_apt()
    assert not (tmp_path / "home").exists()


def test_a_missing_agent_comes_with_the_command_that_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "agent_path", lambda: tmp_path / "agent")
    with pytest.raises(AgentMissing) as raised:
        check_agent()
    assert raised.value.hint == "Run `make agent`"


def test_a_host_with_everything_passes(tmp_path: Path) -> None:
    check_packages(Config(home=tmp_path))
