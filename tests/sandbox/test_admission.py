"""The host's memory, read from figures as kernels and containers show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible.errors import NotEnoughMemory
from crucible.sandbox import admission
from crucible.sandbox.admission import OVERHEAD_MIB, RESERVE_MIB, admit, available_mib

GIB = 1 << 30


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with 10 GiB to spare and no limits yet."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 16777216 kB\nMemFree: 1024 kB\nMemAvailable: 10485760 kB\n")
    (tmp_path / "cgroup" / "memory").mkdir(parents=True)
    monkeypatch.setattr(admission, "_MEMINFO", meminfo)
    monkeypatch.setattr(admission, "_CGROUPS", tmp_path / "cgroup")
    return tmp_path / "cgroup"


def cap_v2(root: Path, cap: str, used: int, cache: int) -> None:
    (root / "memory.max").write_text(f"{cap}\n")
    (root / "memory.current").write_text(f"{used}\n")
    (root / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\nactive_file 9\n")


def cap_v1(root: Path, cap: int, used: int, cache: int) -> None:
    (root / "memory" / "memory.limit_in_bytes").write_text(f"{cap}\n")
    (root / "memory" / "memory.usage_in_bytes").write_text(f"{used}\n")
    (root / "memory" / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {cache}\n")


def test_without_limits_it_is_what_the_kernel_says(cgroups: Path) -> None:
    assert available_mib() == 10240


def test_this_very_host_has_some() -> None:
    assert available_mib() > 0


def test_a_container_has_what_its_limit_leaves(cgroups: Path) -> None:
    cap_v2(cgroups, str(4 * GIB), 3 * GIB, 0)
    assert available_mib() == 1024


def test_copies_of_files_do_not_count_as_used(cgroups: Path) -> None:
    cap_v2(cgroups, str(4 * GIB), 3 * GIB, 2 * GIB)
    assert available_mib() == 3072


def test_the_older_kind_of_limit_is_read_too(cgroups: Path) -> None:
    cap_v1(cgroups, 4 * GIB, 3 * GIB, 2 * GIB)
    assert available_mib() == 3072


@pytest.mark.parametrize("cap", ["max", str((1 << 63) - 4096), "garbage", ""])
def test_a_limit_that_is_none_is_none(cgroups: Path, cap: str) -> None:
    cap_v2(cgroups, cap, 3 * GIB, 0)
    assert available_mib() == 10240


def test_a_limit_above_the_hosts_memory_promises_nothing(cgroups: Path) -> None:
    cap_v2(cgroups, str(400 * GIB), 0, 0)
    assert available_mib() == 10240


def test_what_fits_to_the_last_mebibyte_is_admitted(cgroups: Path) -> None:
    admit(10240 - RESERVE_MIB - OVERHEAD_MIB)


def test_one_more_is_refused_with_the_figures(cgroups: Path) -> None:
    with pytest.raises(NotEnoughMemory) as refused:
        admit(10240 - RESERVE_MIB - OVERHEAD_MIB + 1)
    assert f"{10240 - RESERVE_MIB + 1} MiB" in refused.value.message
    assert f"{10240 - RESERVE_MIB} MiB" in refused.value.message
    assert refused.value.exit_status == 126


def test_what_is_promised_to_others_is_not_there(cgroups: Path) -> None:
    admit(1024, promised_mib=8000)
    with pytest.raises(NotEnoughMemory):
        admit(1024, promised_mib=9000)


def test_a_host_with_nothing_left_never_shows_less_than_nothing(cgroups: Path) -> None:
    cap_v2(cgroups, str(GIB), 2 * GIB, 0)
    with pytest.raises(NotEnoughMemory) as refused:
        admit(128, promised_mib=5000)
    assert "spare 0 MiB" in refused.value.message
