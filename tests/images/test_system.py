"""What the host must have, and what is said about what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible import programs, system
from crucible.errors import PrerequisiteMissing


def test_both_processors_have_their_qemu() -> None:
    assert "qemu-system-x86" in [need.package for need in system.needs("x86_64")]
    assert "qemu-system-arm" in [need.package for need in system.needs("aarch64")]


def test_every_need_can_be_looked_for_and_says_why() -> None:
    for need in (*system.needs("x86_64"), *system.needs("aarch64")):
        assert need.program or need.file
        assert need.why


def test_what_is_not_found_is_missing() -> None:
    wanted = system.needs("x86_64")
    lacking = system.missing(wanted, is_present=lambda need: need.program != "bwrap")
    assert [need.package for need in lacking] == ["bubblewrap"]


def test_a_program_in_sbin_is_found_without_it_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert programs.find_program("mkfs.ext4") is not None


def test_the_distribution_and_its_family_are_read(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('NAME="Ubuntu"\nID=ubuntu\nID_LIKE="debian"\nnonsense\n')
    assert system.distribution(file) == ("ubuntu", "debian")
    assert system.distribution(tmp_path / "missing") == ()


def test_the_install_command_is_one_line() -> None:
    command = system.install_command(("bubblewrap", "uidmap"))
    assert command.endswith("apt-get install -y --no-install-recommends bubblewrap uidmap")


def test_all_that_lacks_is_told_with_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "has_apt", lambda: True)
    assert system.require("sh")[0].endswith("/sh")
    with pytest.raises(PrerequisiteMissing) as refused:
        system.require("sh", "no-such-program", "nor-such")
    assert refused.value.message == "no-such-program and nor-such are not installed"
    assert refused.value.hint == f"Run `{system.install_command(('no-such-program', 'nor-such'))}`"


def test_where_there_is_no_apt_no_command_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "has_apt", lambda: False)
    with pytest.raises(PrerequisiteMissing) as refused:
        system.require("no-such-program")
    assert "apt" not in refused.value.hint
    assert "no-such-program" in refused.value.hint
