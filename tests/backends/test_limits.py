"""Limits groups are found again by whoever must remove them, wherever that one runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible.backends.qemu import limits
from crucible.backends.qemu.limits import Caps, find_group, forget_group, make_group

CAPS = Caps(memory_bytes=1 << 30, cpus=1, pids=10)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for the host's cgroups; nothing is limited there."""
    monkeypatch.setattr(limits, "CGROUP_ROOT", tmp_path / "cgroup")
    for name in ("here", "there"):
        (tmp_path / "cgroup" / name).mkdir(parents=True)
    (tmp_path / "sandbox").mkdir()
    return tmp_path / "cgroup"


def stand_in(root: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    parents = [(root / name, frozenset[str]()) for name in names]
    monkeypatch.setattr(limits, "_writable_parents", lambda: parents)


def test_a_group_is_found_from_another_cgroup(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "sandbox"
    stand_in(root, monkeypatch, "here")
    made = make_group("box", CAPS, directory)
    assert made.directories == (root / "here" / "crucible-box",)
    for elsewhere in (("there",), ()):
        stand_in(root, monkeypatch, *elsewhere)
        assert find_group("box", directory) == made
    find_group("box", directory).remove()
    assert list((root / "here").iterdir()) == []
    forget_group(directory)
    forget_group(directory)
    assert list(directory.iterdir()) == []


def test_where_it_will_be_is_written_down_before_it_is_made(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "sandbox"
    stand_in(root, monkeypatch, "here")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(limits, "_write_caps", die)
    with pytest.raises(KeyboardInterrupt):
        make_group("box", CAPS, directory)
    stand_in(root, monkeypatch, "there")
    find_group("box", directory).remove()
    assert list((root / "here").iterdir()) == []


@pytest.mark.parametrize(
    "record",
    [
        b"ROOT/cgroup/here/crucible-other\0",
        b"ROOT/outside/crucible-box\0",
        b"ROOT/cgroup/../outside/crucible-box\0",
        b"ROOT/cgroup/here/crucible-box",
        b"\xff\0\0\0",
        b"crucible-box\0",
        b"",
    ],
)
def test_a_record_that_names_anything_else_is_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: bytes
) -> None:
    stand_in(root, monkeypatch)
    for place in ("cgroup/here/crucible-other", "outside/crucible-box", "cgroup/here/crucible-box"):
        (tmp_path / place).mkdir(parents=True)
    named = record.replace(b"ROOT", str(tmp_path).encode())
    (tmp_path / "sandbox" / limits.RECORD_NAME).write_bytes(named)
    find_group("box", tmp_path / "sandbox").remove()
    assert (tmp_path / "outside/crucible-box").exists()
    assert (tmp_path / "cgroup/here/crucible-other").exists()
    assert (tmp_path / "cgroup/here/crucible-box").exists()
