"""Every check tells what is really there, and the command that mends it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from pathlib import Path

import pytest
from tests.conftest import unprivileged

from crucible import system
from crucible.config import Config
from crucible.diagnosis import host, machines, stock
from crucible.diagnosis.check import Check, has_failed
from crucible.diagnosis.doctor import diagnose, works
from crucible.errors import BootFailed
from crucible.images import bundle
from crucible.sandbox.isolation import Isolation


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what the test puts there."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def put_program(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def put_kernel(home: Path, content: bytes = b"kernel") -> Path:
    """A kernel whose bytes mean nothing, laid out as the real one is."""
    shelf = home / "kernels"
    with bundle.workplace(shelf) as work:
        made = work / "kernel"
        made.mkdir()
        (made / "vmlinuz").write_bytes(content)
        bundle.publish(made, shelf, facts={"version": "6.1.0", "modules": ()}, name="6.1.0")
    return shelf / "6.1.0" / "vmlinuz"


def named(checks: list[Check], name: str) -> Check:
    (found,) = [check for check in checks if check.name == name]
    return found


def test_an_old_python_is_told() -> None:
    assert host.check_python((3, 10, 9)).status == "fail"
    assert host.check_python((3, 11, 0)).status == "ok"


def test_missing_programs_come_with_the_one_command_that_brings_them(bare_path: Path) -> None:
    checks = list(host.check_programs())
    qemu = named(checks, "package bubblewrap")
    assert qemu.status == "fail"
    assert "bwrap is missing" in qemu.finding
    if system.has_apt():
        assert "apt-get install" in qemu.fix
        assert "qemu-utils" in qemu.fix
    else:
        assert qemu.fix


def test_a_home_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("x")
    check = host.check_home(tmp_path / "home")
    assert check.status == "fail"
    assert "CRUCIBLE_HOME" in check.fix


def test_a_home_that_is_not_there_yet_is_measured_where_it_will_be(tmp_path: Path) -> None:
    check = host.check_home(tmp_path / "not" / "yet")
    assert "GB free" in check.finding
    assert not (tmp_path / "not").exists()


def test_a_home_that_cannot_be_written_is_told(public_directory: Path) -> None:
    (public_directory / "home").mkdir(mode=0o555)
    with unprivileged():
        assert host.check_home(public_directory / "home").status == "fail"


def test_without_bubblewrap_there_are_no_namespaces(bare_path: Path) -> None:
    check = host.check_namespaces()
    assert check.status == "fail"
    assert "bubblewrap" in check.fix


@pytest.mark.parametrize(
    "file, value, fix",
    [
        ("sys/kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict"),
        ("sys/kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("sys/user/max_user_namespaces", "0", "max_user_namespaces"),
        ("sys/nothing", "0", "container"),
    ],
)
def test_refused_namespaces_come_with_what_allows_them(
    bare_path: Path, tmp_path: Path, file: str, value: str, fix: str
) -> None:
    put_program(
        bare_path, "bwrap", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1"
    )
    setting = tmp_path / "proc" / file
    setting.parent.mkdir(parents=True)
    setting.write_text(f"{value}\n")
    check = host.check_namespaces(proc=tmp_path / "proc")
    assert check.status == "fail"
    assert "setting up uid map" in check.finding
    assert fix in check.fix


def test_a_bubblewrap_that_says_nothing_is_still_told(bare_path: Path) -> None:
    put_program(bare_path, "bwrap", "exit 3")
    assert "status 3" in host.check_namespaces().finding


def test_a_missing_kvm_is_no_failure(tmp_path: Path) -> None:
    check = machines.check_kvm_device(tmp_path / "kvm")
    assert check.status == "warn"
    assert "does not exist" in check.finding


def test_a_kvm_without_permission_names_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "kvm"
    device.touch(mode=0o000)

    def denied(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    check = machines.check_kvm_device(device)
    assert check.status == "warn"
    assert "usermod -aG kvm" in check.fix


def test_a_kvm_without_hardware_behind_it_is_not_praised(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.touch(mode=0o660)
    assert machines.check_kvm_device(device, has_hardware=False).status == "warn"
    assert machines.check_kvm_device(device, has_hardware=True).status == "ok" or os.geteuid() == 0


class Candidate:
    """A backend as a diagnosis sees it."""

    def __init__(self, name: str, isolation: Isolation, why: str | None) -> None:
        self.name = name
        self._isolation = isolation
        self._why = why

    async def isolation(self) -> Isolation:
        return self._isolation

    async def try_boot(self) -> str | None:
        if self._why == "raises":
            raise BootFailed("it fell over\nquite badly")
        return self._why


def trial(name: str, isolation: Isolation, why: str | None = None) -> machines.Trial:
    return asyncio.run(machines.try_backend(Candidate(name, isolation, why)))


def test_a_kvm_that_lies_is_a_warning_as_long_as_something_works() -> None:
    trials = [
        trial("qemu-kvm", Isolation.SOFTWARE_VM, "Sandbox 'probe' did not answer within 8 s"),
        trial("qemu-tcg", Isolation.SOFTWARE_VM),
    ]
    kvm, tcg = machines.check_backends(trials)
    assert (kvm.status, tcg.status) == ("warn", "ok")
    assert "did not answer within 8 s" in kvm.finding


def test_without_any_backend_there_is_no_isolation() -> None:
    trials = [trial("qemu-kvm", Isolation.HARDWARE_VM, "raises")]
    (check,) = machines.check_backends(trials)
    assert check.status == "fail"
    assert "it fell over; quite badly" in check.finding
    assert machines.check_isolation(trials).status == "fail"


def test_the_label_is_that_of_the_strongest_backend_that_works() -> None:
    hardware = trial("qemu-kvm", Isolation.HARDWARE_VM)
    broken = trial("qemu-kvm", Isolation.HARDWARE_VM, "no")
    software = trial("qemu-tcg", Isolation.SOFTWARE_VM)
    assert machines.check_isolation([software, hardware]).finding.startswith("hardware-vm")
    assert machines.check_isolation([broken, software]).finding.startswith("software-vm")


def test_emulation_is_never_called_a_promise() -> None:
    finding = machines.check_isolation([trial("qemu-tcg", Isolation.SOFTWARE_VM)]).finding
    assert "no security promise" in finding


def put_process(proc: Path, pid: str, fields: dict[str, str], *, namespace: str) -> None:
    (proc / pid / "ns").mkdir(parents=True)
    text = "".join(f"{key}:\t{value}\n" for key, value in fields.items())
    (proc / pid / "status").write_text(text)
    for name in ("user", "pid", "mnt", "net", "ipc", "uts"):
        (proc / pid / "ns" / name).symlink_to(f"{name}:[{namespace}]")


JAILED = {
    "Uid": "1900000001\t1900000001",
    "NoNewPrivs": "1",
    "Seccomp": "2",
    "CapEff": "0000000000000000",
}


@pytest.mark.parametrize(
    "flaw, word",
    [
        ({}, ""),
        ({"NoNewPrivs": "0"}, "no new privileges"),
        ({"Seccomp": "0"}, "seccomp"),
        ({"CapEff": "00000000a80425fb"}, "no capabilities"),
        ({"namespace": "1"}, "namespaces"),
    ],
)
def test_each_part_of_the_jail_is_read_from_the_kernel(
    tmp_path: Path, flaw: dict[str, str], word: str
) -> None:
    fields = {**JAILED, **flaw}
    put_process(tmp_path, "self", {}, namespace="1")
    put_process(tmp_path, "42", fields, namespace=fields.pop("namespace", "2"))
    check = machines.check_jail(42, proc=tmp_path)
    assert check.status == ("fail" if word else "ok")
    assert word in check.finding


def test_a_machine_that_is_gone_has_no_jail(tmp_path: Path) -> None:
    assert machines.check_jail(42, proc=tmp_path).status == "fail"


def test_what_cannot_be_seen_of_the_jail_is_not_claimed(tmp_path: Path) -> None:
    put_process(tmp_path, "self", {}, namespace="1")
    put_process(tmp_path, "42", JAILED, namespace="2")
    (tmp_path / "42/ns/net").unlink()
    assert machines.check_jail(42, proc=tmp_path).status == "fail"


def test_a_kernel_that_was_never_fetched_is_told(tmp_path: Path) -> None:
    check = stock.check_kernel(tmp_path, deep=False)
    assert check.status == "fail"
    assert check.fix == "Run `crucible setup`"


@pytest.mark.parametrize("deep", [False, True])
def test_a_kernel_cut_short_is_told(tmp_path: Path, deep: bool) -> None:
    vmlinuz = put_kernel(tmp_path)
    assert stock.check_kernel(tmp_path, deep=deep).status == "ok"
    os.truncate(vmlinuz, 3)
    assert stock.check_kernel(tmp_path, deep=deep).status == "fail"


def test_a_kernel_with_one_other_byte_is_found_by_the_deep_look_only(tmp_path: Path) -> None:
    put_kernel(tmp_path).write_bytes(b"kernal")
    assert stock.check_kernel(tmp_path, deep=False).status == "ok"
    assert stock.check_kernel(tmp_path, deep=True).status == "fail"


def test_an_image_that_was_never_built_is_told(tmp_path: Path) -> None:
    check = stock.check_image(tmp_path, deep=True)
    assert (check.status, check.fix) == ("fail", "Build the base image with `crucible setup`")


@pytest.mark.parametrize("content", [None, b"", b"#!/bin/sh\n"])
def test_an_agent_that_is_none_is_told(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "agent").write_bytes(content)
    check = stock.check_agent(tmp_path / "agent")
    assert check.status == "fail"
    assert check.fix


def test_a_machine_with_nothing_on_it_is_diagnosed_to_the_end(
    tmp_path: Path, bare_path: Path
) -> None:
    checks = diagnose(Config(home=tmp_path / "home"), kvm_device=tmp_path / "kvm")
    assert not works(checks)
    assert has_failed(checks)
    assert {"python", "home", "namespaces", "limits", "agent", "kernel", "image"} <= {
        check.name for check in checks
    }
    assert not (tmp_path / "home").exists()


def test_a_diagnosis_can_be_written_as_json(tmp_path: Path, bare_path: Path) -> None:
    checks = diagnose(Config(home=tmp_path / "home"), deep=False)
    assert json.loads(json.dumps([dataclasses.asdict(check) for check in checks]))


def test_every_failure_says_what_to_do(tmp_path: Path, bare_path: Path) -> None:
    for check in diagnose(Config(home=tmp_path / "home"), deep=False):
        assert check.status == "ok" or check.fix or check.name == "kvm", check
