"""Processes that live, that die, and that are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from crucible.sandbox import processes

# Enough that the kernel needs a moment to take it back.
LARGE = "held = bytearray(256 << 20)\nheld[::4096] = b'x' * 65536\nprint(flush=True)\ninput()"


def test_a_process_is_at_work_until_it_is_killed_and_never_again() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LARGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        mark = processes.start_mark(process.pid)
        assert mark is not None
        assert processes.is_at_work(process.pid, mark)
        assert not processes.is_at_work(process.pid, f"{mark}0")
        assert not processes.is_dying(process.pid)
        pidfd = os.pidfd_open(process.pid)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        # It still runs for a moment, then dies for a moment, and is a zombie in the end.
        while processes.is_at_work(process.pid, mark):
            time.sleep(0)
        while processes.is_running(process.pid, mark):
            assert not processes.is_at_work(process.pid, mark)
        assert not processes.is_dying(process.pid)


def test_nobody_is_neither_at_work_nor_dying() -> None:
    assert not processes.is_at_work(None, "")
    assert not processes.is_dying(1 << 30)
