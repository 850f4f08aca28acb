"""What a session wishes of its sandbox, as the sandbox room is asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible.agent.options import CheckpointWish, SandboxWish, SessionOptions
from crucible.agent.places.opening import Wanted
from crucible.agent.places.workplaces import wanted_of
from crucible.errors import BadSetting, PathRefused


def wanted_for(wish: SandboxWish) -> Wanted:
    return wanted_of(SessionOptions(sandbox=wish, checkpoints=CheckpointWish(keep=3)))


def test_a_session_that_wishes_nothing_has_no_network() -> None:
    wanted = wanted_for(SandboxWish())
    assert (wanted.spec.image, wanted.spec.network, wanted.host_directory) == ("base", "off", None)
    assert wanted.checkpoints == 3


def test_hosts_are_all_that_may_be_reached(tmp_path: Path) -> None:
    wish = SandboxWish(
        image="python", network="full", hosts=("pypi.org",), directory=str(tmp_path),
        memory_mib=1000, environment={"A": "b"},
    )  # fmt: skip
    spec = wanted_for(wish).spec
    assert (spec.network, spec.allow) == ("allowlist", ("pypi.org",))
    assert (spec.image, spec.memory_mib, spec.environment) == ("python", 1024, {"A": "b"})
    assert wanted_for(wish).host_directory == str(tmp_path.resolve())


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting):
        wanted_for(SandboxWish(network="some"))
    with pytest.raises(BadSetting):
        wanted_for(SandboxWish(memory_mib=1))
    with pytest.raises(PathRefused):
        wanted_for(SandboxWish(directory=str(tmp_path / "none")))
