"""The limits that SPECIFICATION.md and the settings page name are those in force."""

from __future__ import annotations

import pytest
from tests.docs.pages import ROOT

from crucible.cli.commands.fork import _MOST_FORKS
from crucible.sandbox import admission, spec
from crucible.sandbox.output_log import MOST_BYTES
from crucible.sandbox.service.requests import _LARGEST_ARGUMENTS

SPECIFICATION = (ROOT / "SPECIFICATION.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")

_TIERS = spec.MEMORY_TIERS_MIB


@pytest.mark.parametrize(
    "row",
    [
        f"| memory of a sandbox | {_TIERS[0]} MiB to {_TIERS[-1] >> 10} GiB in tiers;"
        f" default {spec.DEFAULT_MEMORY_MIB} MiB |",
        f"| processors | 1 to {spec.LARGEST_CPUS}; default {spec.SandboxSpec().cpus} |",
        f"| disk | {spec.SMALLEST_DISK_MIB} MiB to {spec.LARGEST_DISK_MIB >> 20} TiB, sparse;"
        f" default {spec.DEFAULT_DISK_MIB >> 10} GiB |",
        f"| {spec.DEFAULT_RUN_TIMEOUT_S / 3600:g} h unless said otherwise;"
        f" at most {spec.LARGEST_TIMEOUT_S / 86400:g} days |",
        f"| command and environment together | {_LARGEST_ARGUMENTS:,} bytes |",
        f"| kept output of a sandbox | the last {MOST_BYTES >> 20} to {MOST_BYTES >> 19} MiB |",
        f"| copies in one fork | {_MOST_FORKS} |",
    ],
)
def test_a_limit_is_the_one_in_force(row: str) -> None:
    assert row in SPECIFICATION


def test_the_tiers_of_memory_are_listed() -> None:
    small = [str(tier) for tier in _TIERS if tier < 1024]
    large = [str(tier >> 10) for tier in _TIERS if tier >= 1024]
    assert f"{', '.join(small)} (the default) MiB and {', '.join(large)} GiB" in SETTINGS
    assert small[-1] == str(spec.DEFAULT_MEMORY_MIB)


def test_what_admission_keeps_back_is_told() -> None:
    assert f"a reserve of {admission.RESERVE_MIB} MiB" in SETTINGS
    assert f"{admission.OVERHEAD_MIB} MiB for its VMM" in SETTINGS


def test_the_longest_name_is_told() -> None:
    assert "1 to 63 letters" in SPECIFICATION
    assert spec.check_name("a" * 63)
