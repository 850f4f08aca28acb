"""A sandbox that goes elsewhere because this host cannot run it: told, written down, and never for a user's mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.backends.e2b.elsewhere import Broken, access, managing, remote_names
from tests.server.scripted import PlayedBackend, Staged, make_base

from crucible.errors import BackendUnusable, BootFailed, ImageMissing, NotEnoughMemory
from crucible.images.report import NOTICE, Report
from crucible.sandbox.spec import SandboxSpec

SPEC = SandboxSpec(network="off")


class Failing(PlayedBackend):
    """It looks well, and no machine comes up."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def boot(self, plan: Any) -> Any:
        raise self._error


def telling(said: list[str]) -> Report:
    return lambda stage, text: said.append(text) if stage == NOTICE else None


async def test_it_goes_elsewhere_and_that_is_told_and_written_down(
    provider: Staged, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"local": Broken(), "provider": "auto", "falls_back": True}
    said: list[str] = []
    given["report"] = telling(said)
    async with managing(tmp_path / "home", access(provider), **given) as manager:
        async with manager.open(SPEC) as held:
            assert held.record.backend == "remote_e2b"
            assert "no such processor" in held.record.placed
        (line,) = said
        assert line.startswith("provider: remote_e2b: no machine works here")
        (audit,) = manager.records.audit()
        assert (audit["verb"], audit["detail"]["backend"]) == ("place", "remote_e2b")


async def test_strict_it_does_not(provider: Staged, tmp_path: Path) -> None:
    make_base(tmp_path / "home")
    given: dict[str, Any] = {"local": Broken(), "provider": "auto"}
    async with managing(tmp_path / "home", access(provider), **given) as manager:
        with pytest.raises(BackendUnusable, match="no such processor"):
            await manager.create("box", SPEC)
    assert remote_names(provider) == []


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_machine_that_does_not_come_up_is_tried_elsewhere(
    provider: Staged, tmp_path: Path, is_named: bool
) -> None:
    home = tmp_path / "home"
    make_base(home)
    failing = Failing(BootFailed("it did not come up"))
    given: dict[str, Any] = {"local": failing, "provider": "auto", "falls_back": True}
    async with managing(home, access(provider), **given) as manager:
        if is_named:
            await manager.create("box", SPEC)
            assert manager.records.find("box").backend == "played"
            record = await manager.start("box")
            assert (record.backend, record.isolation) == ("remote_e2b", "hardware-vm (claimed)")
            assert len(remote_names(provider)) == 1
            await manager.remove("box", force=True)
        else:
            async with manager.open(SPEC) as held:
                assert held.record.backend == "remote_e2b"
                assert len(manager.records.sandboxes()) == 1
    assert remote_names(provider) == []


@pytest.mark.parametrize(
    "error, spec",
    [
        (NotEnoughMemory(512, 0), SPEC),
        (BootFailed("never reached"), SandboxSpec(network="off", image="nosuch")),
    ],
)
async def test_a_request_that_is_wrong_here_is_not_tried_elsewhere(
    provider: Staged, tmp_path: Path, error: Exception, spec: SandboxSpec
) -> None:
    home = tmp_path / "home"
    make_base(home)
    given: dict[str, Any] = {"local": Failing(error), "provider": "auto", "falls_back": True}
    async with managing(home, access(provider), **given) as manager:
        with pytest.raises((NotEnoughMemory, ImageMissing)):
            async with manager.open(spec):
                pass
    assert remote_names(provider) == []
