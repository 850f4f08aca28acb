"""The resident program's log begins anew when it is long, and only if it is its own."""

from __future__ import annotations

import os
from pathlib import Path

from crucible.client.connection import LARGEST_LOG_BYTES
from crucible.sandbox import log


def test_a_long_log_is_put_aside_and_the_next_line_is_in_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "owner.log"
    path.write_bytes(b"x" * (LARGEST_LOG_BYTES + 1))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    log.begin_anew_if_long(path, descriptors=(descriptor,))
    os.write(descriptor, b"next")
    os.close(descriptor)
    assert path.read_bytes() == b"next"
    assert (tmp_path / "owner.log.old").stat().st_size == LARGEST_LOG_BYTES + 1


def test_a_short_log_and_one_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    path, other = tmp_path / "owner.log", tmp_path / "other"
    for size, written in ((LARGEST_LOG_BYTES, path), (LARGEST_LOG_BYTES + 1, other)):
        path.write_bytes(b"x" * size)
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        log.begin_anew_if_long(path, descriptors=(descriptor,))
        os.close(descriptor)
        assert path.stat().st_size == size
