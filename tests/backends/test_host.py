"""What is remembered of the host, and for how long."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from crucible.backends.qemu import clock, host
from crucible.backends.qemu.command import Accelerator
from crucible.errors import PrerequisiteMissing
from crucible.sandbox.isolation import Isolation


def test_a_verdict_is_remembered_for_this_boot(tmp_path: Path) -> None:
    for why in (None, "it lies"):
        verdict = host.Verdict(accelerator=Accelerator.KVM, why=why)
        host.remember(tmp_path, verdict)
        assert host.recall(tmp_path, Accelerator.KVM) == verdict


def test_a_verdict_is_for_one_accelerator(tmp_path: Path) -> None:
    host.remember(tmp_path, host.Verdict(accelerator=Accelerator.KVM, why="it lies"))
    assert host.recall(tmp_path, Accelerator.HVF) is None


def test_a_verdict_of_another_boot_is_forgotten(tmp_path: Path) -> None:
    host.remember(tmp_path, host.Verdict(accelerator=Accelerator.KVM, why="it lies"))
    [path] = tmp_path.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
    assert host.recall(tmp_path, Accelerator.KVM) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff"])
def test_a_damaged_verdict_is_forgotten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "verdict-kvm.json").write_bytes(content)
    assert host.recall(tmp_path, Accelerator.KVM) is None


def test_a_digest_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    path.write_bytes(b"one")
    first = host.file_digest(tmp_path / "cache", path)
    assert host.file_digest(tmp_path / "cache", path) == first
    path.write_bytes(b"two, longer")
    assert host.file_digest(tmp_path / "cache", path) != first


def test_the_version_of_the_vmm_is_asked_once_per_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, log = tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    program = programs / f"qemu-system-{os.uname().machine}"
    program.write_text(f"#!/bin/sh\necho asked >> {log}\necho QEMU version 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for _ in range(2):
        assert host.find_host(tmp_path / "cache").version == "QEMU version 1"
    assert log.read_text() == "asked\n"
    program.write_text(f"#!/bin/sh\necho asked >> {log}\necho QEMU version 2, updated\n")
    assert host.find_host(tmp_path / "cache").version == "QEMU version 2, updated"


def test_a_host_without_the_vmm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrerequisiteMissing, match=r"qemu-system-.* not installed"):
        host.find_host(tmp_path)


def test_emulation_is_never_called_hardware() -> None:
    assert host.isolation_of(Accelerator.TCG) is Isolation.SOFTWARE_VM


def test_without_hardware_no_accelerator_is_called_hardware(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "has_hardware_virtualization", lambda: False)
    assert host.isolation_of(Accelerator.KVM) is Isolation.SOFTWARE_VM


only_x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="others have no such counter")


@only_x86
def test_the_rate_of_the_counter_does_not_change_from_one_start_to_the_next(tmp_path: Path) -> None:
    assert len({host.find_host(tmp_path).tsc_khz for _ in range(5)}) == 1


@only_x86
def test_two_measurements_of_the_counter_agree() -> None:
    one, two = clock.measure_khz(), clock.measure_khz()
    assert one is not None
    assert two is not None
    assert abs(one - two) <= clock.SAME * one
    assert 100_000 < one < 100_000_000


@only_x86
def test_after_a_boot_the_rate_stays_what_it_was_on_the_same_processor(tmp_path: Path) -> None:
    khz = host.find_host(tmp_path).tsc_khz
    path = tmp_path / "clock.json"
    path.write_text(json.dumps({"boot": "another", "khz": khz + 7}))
    assert host.find_host(tmp_path).tsc_khz == khz + 7
    path.write_text(json.dumps({"boot": "another", "khz": khz * 2}))
    assert abs(host.find_host(tmp_path).tsc_khz - khz) <= clock.SAME * khz


@pytest.mark.parametrize("known", [None, "fast", 0, -5, True])
def test_a_rate_that_is_none_is_not_kept(known: object) -> None:
    assert clock.steadied(2_500_000, known) == 2_500_000
