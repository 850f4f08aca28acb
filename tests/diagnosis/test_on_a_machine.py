"""Doctor, setup, demo and uninstall with real machines."""

from __future__ import annotations

import asyncio

import pytest
from tests.conftest import CommandLine

from crucible.config import Config
from crucible.diagnosis.demo import run_demo
from crucible.diagnosis.doctor import diagnose, works
from crucible.diagnosis.prune import prune
from crucible.diagnosis.setup import run_setup
from crucible.diagnosis.uninstall import uninstall
from crucible.sandbox import processes
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.records import open_records

pytestmark = pytest.mark.vm


def test_the_doctor_proves_a_backend_by_booting_with_it(config: Config) -> None:
    checks = {check.name: check for check in diagnose(config)}
    assert works(list(checks.values())), [c for c in checks.values() if c.status == "fail"]
    assert "booted a machine" in checks["backend qemu-tcg"].finding
    assert checks["isolation"].finding.split(":")[0] in list(Isolation)
    assert checks["jail"].status == "ok"
    assert checks["sandbox"].status == "ok"


def test_the_demo_reads_its_artifact_back_and_leaves_nothing(config: Config) -> None:
    said: list[str] = []
    demo = asyncio.run(run_demo(config, said.append))
    names = [step.name for step in demo.steps]
    assert names == ["probe", "create", "write", "execute", "read back", "clean up"]
    assert demo.steps[4].finding.startswith("Python 3")
    assert demo.isolation in list(Isolation)
    assert sum(line.startswith("  crucible ") for line in said) == 3
    assert list((config.home / "sandboxes").iterdir()) == []


def test_a_second_setup_builds_nothing(config: Config) -> None:
    told: list[tuple[str, str]] = []
    run_setup(config, lambda stage, detail: told.append((stage, detail)))
    assert not [detail for _, detail in told if "reading the package lists" in detail]
    assert told[-1][0] == "setup"


def test_pruning_leaves_what_sandboxes_start_from(config: Config) -> None:
    run_setup(config, lambda stage, detail: None)
    prune(config)
    told: list[str] = []
    run_setup(config, lambda stage, detail: told.append(detail))
    assert not [detail for detail in told if "booting a machine once" in detail]


def test_uninstalling_ends_what_runs_and_leaves_nothing(
    crucible: CommandLine, config: Config
) -> None:
    crucible.ok("create", "box")
    crucible.ok("start", "box")
    records = open_records(config.home)
    record = records.find("box")
    records.close()
    assert processes.is_running(record.pid, record.pid_started)
    removal = uninstall(config, lambda removal: True)
    assert removal is not None
    assert removal.sandboxes == ("box",)
    assert not processes.is_running(record.pid, record.pid_started)
    assert not config.home.exists()
