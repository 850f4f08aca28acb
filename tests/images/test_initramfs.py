"""The archive a machine starts from: what an independent reader finds in it, and when it is made anew."""

from __future__ import annotations

import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from crucible.errors import AgentMissing, KernelMissing
from crucible.images.initramfs import Member, archive, initramfs_for
from crucible.images.kernel import Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    name: str
    mode: int
    device: tuple[int, int]
    data: bytes


def read_newc(data: bytes) -> list[Found]:
    """A reader written from the format's description, not from our writer."""
    found: list[Found] = []
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name_end = at + 110 + fields[11]
        assert data[name_end - 1] == 0
        name = data[at + 110 : name_end - 1].decode()
        body = (name_end + 3) & ~3
        if name == "TRAILER!!!":
            return found
        content = data[body : body + fields[6]]
        found.append(Found(name=name, mode=fields[1], device=(fields[9], fields[10]), data=content))
        at = (body + fields[6] + 3) & ~3


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    modules = tmp_path / "kernel" / "modules"
    modules.mkdir(parents=True)
    paths = (modules / "00-virtio.ko", modules / "01-virtio_blk.ko")
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * (number * 3 + 5))
    return Kernel(version="6.1", vmlinuz=tmp_path / "vmlinuz", modules=paths, digest="d" * 64)


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent"
    path.write_bytes(b"\x7fELF agent")
    return path


def test_the_agent_is_init_and_the_modules_follow_in_order(
    tmp_path: Path, agent: Path, kernel: Kernel
) -> None:
    found = {entry.name: entry for entry in read_newc(_made(tmp_path, agent, kernel))}
    assert found["init"].data == b"\x7fELF agent"
    assert found["init"].mode == stat.S_IFREG | 0o755
    assert found["modules/order"].data == b"00-virtio.ko\n01-virtio_blk.ko\n"
    assert found["modules/01-virtio_blk.ko"].data == b"\x01" * 8
    assert found["dev/console"].device == (5, 1)
    assert stat.S_ISCHR(found["dev/console"].mode)
    assert stat.S_ISDIR(found["proc"].mode)


def test_a_directory_comes_before_what_it_holds(
    tmp_path: Path, agent: Path, kernel: Kernel
) -> None:
    names = [entry.name for entry in read_newc(_made(tmp_path, agent, kernel))]
    for name in names:
        parent = name.rpartition("/")[0]
        assert not parent or names.index(parent) < names.index(name)


def test_cpio_reads_the_archive(tmp_path: Path, agent: Path, kernel: Kernel) -> None:
    listed = subprocess.run(
        ["cpio", "-t", "--quiet"],
        input=_made(tmp_path, agent, kernel),
        capture_output=True,
        check=True,
    )
    assert b"modules/00-virtio.ko" in listed.stdout.splitlines()


def test_the_same_content_gives_the_same_bytes(tmp_path: Path, agent: Path, kernel: Kernel) -> None:
    first = initramfs_for(tmp_path / "one", agent, kernel)
    second = initramfs_for(tmp_path / "two", agent, kernel)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_another_agent_gives_another_file(tmp_path: Path, agent: Path, kernel: Kernel) -> None:
    before = initramfs_for(tmp_path, agent, kernel)
    agent.write_bytes(b"\x7fELF newer")
    assert initramfs_for(tmp_path, agent, kernel) != before


def test_an_archive_cut_short_is_made_anew(tmp_path: Path, agent: Path, kernel: Kernel) -> None:
    path = initramfs_for(tmp_path, agent, kernel)
    whole = path.read_bytes()
    path.write_bytes(whole[:10])
    assert initramfs_for(tmp_path, agent, kernel).read_bytes() == whole


def test_a_missing_agent_says_how_to_build_it(tmp_path: Path, kernel: Kernel) -> None:
    with pytest.raises(AgentMissing) as caught:
        initramfs_for(tmp_path, tmp_path / "nowhere", kernel)
    assert "make agent" in caught.value.hint


def test_a_missing_module_says_the_kernel_is_not_usable(
    tmp_path: Path, agent: Path, kernel: Kernel
) -> None:
    kernel.modules[1].unlink()
    with pytest.raises(KernelMissing, match="virtio_blk"):
        initramfs_for(tmp_path, agent, kernel)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 511, 512, 513])
def test_every_length_is_padded_right(size: int) -> None:
    data = bytes(range(256)) * 3
    member = Member(name="x" * (size % 7 + 1), mode=stat.S_IFREG | 0o600, data=data[:size])
    (found,) = read_newc(archive([member]))
    assert (found.name, found.data) == (member.name, member.data)


def _made(home: Path, agent: Path, kernel: Kernel) -> bytes:
    return initramfs_for(home, agent, kernel).read_bytes()
