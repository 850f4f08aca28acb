"""What is run inside and outside a sandbox to measure connections and streams does what it says. Nothing is judged."""

from __future__ import annotations

import subprocess
import sys

import pytest
from benchmarks.streams import CONNECT, LATER, STREAM, running_peer


@pytest.mark.parametrize("program, count", [(CONNECT, LATER + 1), (STREAM, 2)])
def test_a_program_reaches_the_peer_and_tells_its_times(program: str, count: int) -> None:
    with running_peer("127.0.0.1") as port:
        told = subprocess.run(
            [sys.executable, "-c", program, "127.0.0.1", str(port)],
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
    times = [float(line) for line in told.split()]
    assert len(times) == count
    assert all(seconds > 0 for seconds in times)
