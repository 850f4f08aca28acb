"""What was saved to start from an image goes with it, and whoever is starting just then starts all the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.conftest import CommandLine, Run, end_owner
from tests.vm.conftest import shell

from crucible import assemble
from crucible.backends.qemu.backend import QemuBackend
from crucible.backends.qemu.command import Accelerator
from crucible.backends.qemu.saved import SavedMachine
from crucible.config import Config
from crucible.sandbox.backend import BootPlan
from crucible.sandbox.machines import Machines
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import open_records
from crucible.sandbox.spec import SandboxSpec

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]


def templates(home: Path) -> dict[str, str]:
    """Their images by their keys."""
    found = (home / "templates").glob("[!.]*/manifest.json")
    return {path.parent.name: json.loads(path.read_text())["image_digest"] for path in found}


def test_the_template_of_an_image_goes_with_it_unless_a_sandbox_has_it(
    home: Path, crucible: CommandLine, tmp_path: Path
) -> None:
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, tmp_path / "busybox")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY --chmod=755 busybox /busybox\n")
    # Two names of the same layers have one root, and so one template.
    for name in ("one:1", "two:1"):
        crucible.ok("image", "build", "-t", name, tmp_path)
    before = templates(home)
    words = ("run", "--memory", "256M", "--image", "one:1", "/busybox", "true")
    assert crucible(*words, timeout=600).returncode == 0
    (made,) = templates(home).keys() - before.keys()

    crucible.ok("image", "remove", "one:1")
    assert made in templates(home)
    crucible.ok("create", "box", "--memory", "256M", "--image", "two:1")
    refused = crucible("image", "remove", "two:1")
    assert refused.returncode != 0
    assert made in templates(home)
    crucible.ok("remove", "box")
    end_owner(home)
    crucible.ok("image", "remove", "two:1")
    assert templates(home) == before


class Losing(QemuBackend):
    """Its first template is gone the moment after it was found."""

    lost: Path | None = None

    async def template(self, plan: BootPlan) -> SavedMachine:
        found = await super().template(plan)
        if self.lost is None:
            self.lost = found.directory
            shutil.rmtree(found.directory)
        return found


async def test_a_start_whose_template_is_removed_meanwhile_makes_another(
    home: Path, run: Run
) -> None:
    backend = Losing(
        home=home,
        agent=assemble.agent_path(),
        accelerator=Accelerator.TCG,
        template_limit_mib=8192,
    )
    records = open_records(home)
    manager = Manager(config=Config(home=home), records=records, machines=Machines([backend]))
    try:
        async with manager.open(SandboxSpec()) as held:
            done = await shell(held, "echo started")
            assert done.output == b"started\n"
    finally:
        records.close()
    assert backend.lost is not None
    assert backend.lost.is_dir()
