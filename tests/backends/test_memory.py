"""Memories on their way between a descriptor and a sparse file, and the seal over them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crucible.backends.qemu import memory
from crucible.errors import TemplateDamaged

SIZE = 8 << 20
PAGE = 4096


@pytest.fixture
def empty() -> Iterator[int]:
    descriptor = memory.create(SIZE)
    yield descriptor
    os.close(descriptor)


def contents(descriptor: int) -> bytes:
    return os.pread(descriptor, SIZE, 0)


def round_trip(writes: dict[int, bytes], path: Path) -> tuple[bytes, bytes]:
    """What was written to a memory, and what another one holds after saving and filling."""
    first, second = memory.create(SIZE), memory.create(SIZE)
    try:
        for offset, data in writes.items():
            os.pwrite(first, data[: SIZE - offset], offset)
        memory.save(first, path)
        memory.fill(second, path, SIZE)
        return contents(first), contents(second)
    finally:
        os.close(first)
        os.close(second)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    writes=st.dictionaries(
        st.integers(0, SIZE - 1), st.binary(min_size=1, max_size=3 * PAGE), max_size=12
    )
)
def test_a_memory_comes_back_byte_for_byte(tmp_path: Path, writes: dict[int, bytes]) -> None:
    path = tmp_path / os.urandom(8).hex()
    first, second = round_trip(writes, path)
    assert second == first


@pytest.mark.parametrize(
    "writes",
    [
        {},
        {0: b"x"},
        {SIZE - 1: b"x"},
        {(1 << 20) - 1: b"over the border"},
        {0: os.urandom(SIZE)},
        {PAGE * 3: bytes(PAGE * 5)},
    ],
    ids=["empty", "first", "last", "border", "full", "zeroes"],
)
def test_odd_memories_come_back_too(tmp_path: Path, writes: dict[int, bytes]) -> None:
    first, second = round_trip(writes, tmp_path / "ram")
    assert second == first


def test_zeroes_take_no_room_on_disk(tmp_path: Path, empty: int) -> None:
    os.pwrite(empty, bytes(SIZE), 0)
    os.pwrite(empty, b"one page", 5 * PAGE)
    memory.save(empty, tmp_path / "ram")
    status = (tmp_path / "ram").stat()
    assert (status.st_size, status.st_blocks * 512 <= 4 * PAGE) == (SIZE, True)


def test_a_saved_memory_never_replaces_a_file(tmp_path: Path, empty: int) -> None:
    (tmp_path / "ram").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        memory.save(empty, tmp_path / "ram")


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1])
def test_a_file_of_another_size_is_not_taken(tmp_path: Path, empty: int, size: int) -> None:
    (tmp_path / "ram").write_bytes(bytes(size))
    with pytest.raises(TemplateDamaged):
        memory.fill(empty, tmp_path / "ram", SIZE)


def test_a_sealed_memory_can_neither_be_written_nor_resized(empty: int) -> None:
    memory.seal(empty)
    for attempt in (
        lambda: os.pwrite(empty, b"x", 0),
        lambda: os.ftruncate(empty, 0),
        lambda: os.ftruncate(empty, SIZE * 2),
    ):
        with pytest.raises(PermissionError):
            attempt()


def test_chunks_with_data_are_whole_aligned_and_told_once(empty: int) -> None:
    for offset in (0, 5, (3 << 20) - 1, 3 << 20, SIZE - 1):
        os.pwrite(empty, b"x", offset)
    assert list(memory.chunks_with_data(empty, SIZE)) == [0, 2 << 20, 3 << 20, 7 << 20]
