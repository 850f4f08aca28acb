"""Building from real packages: twice the same bytes, and nothing of the host inside. Needs the package sources."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from crucible.images.base import build_base
from crucible.images.catalog import Image
from crucible.images.recipe import parse_recipe

# Packages are fetched and unpacked twice.
pytestmark = pytest.mark.timeout(2400)

SMALL = """
name = "small"
user = "someone"
uid = 1234
workdir = "/work/here"
packages = ["procps"]
exclude = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"]
[environment]
LANG = "C.UTF-8"
"""


def build(home: Path, reports: list[str]) -> Image:
    def report(stage: str, detail: str) -> None:
        reports.append(f"{stage}: {detail}")

    return build_base(home, report=report, recipe=parse_recipe(SMALL, origin="small.toml"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Image:
    reports: list[str] = []
    image = build(tmp_path_factory.mktemp("home"), reports)
    assert "small: packing the filesystem" in reports
    return image


def test_two_builds_give_the_same_bytes(
    small: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert build(tmp_path, []).digest == small.digest


def test_an_image_that_is_there_is_not_built_again(small: Image) -> None:
    reports: list[str] = []
    home = small.root.parents[3]
    assert build(home, reports) == small
    assert reports == []


def test_the_image_holds_its_user_and_nothing_of_the_host(small: Image, tmp_path: Path) -> None:
    subprocess.run(
        ["unsquashfs", "-no-exit-code", "-d", str(tmp_path / "root"), str(small.root)],
        capture_output=True,
        check=True,
    )
    root = tmp_path / "root"
    assert "someone:x:1234:1234::/home/someone:/bin/bash\n" in (root / "etc/passwd").read_text()
    for empty in ("etc/machine-id", "etc/hostname", "etc/resolv.conf"):
        assert (root / empty).read_bytes() == b""
    for bare in ("var/log", "etc/apt/sources.list.d", "tmp", "home/someone/.cache"):
        assert not (root / bare).exists() or list((root / bare).iterdir()) == []
    assert not (root / "etc/apt/sources.list").exists()
    assert (root / "work/here").is_dir()


def test_the_package_list_has_names_and_versions(small: Image) -> None:
    assert small.packages is not None
    lines = small.packages.read_text().splitlines()
    assert lines == sorted(lines)
    assert all(len(line.split()) == 3 for line in lines)
    assert "procps" in [line.split()[0] for line in lines]
