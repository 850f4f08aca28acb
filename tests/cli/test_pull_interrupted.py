"""An interrupt while an image is pulled for `run`: the registry may be silent, we are not."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

from tests.conftest import CommandLine


def test_an_interrupt_ends_a_pull_that_hangs(tmp_path: Path) -> None:
    line = CommandLine(tmp_path / "home")
    line.environment |= {"CRUCIBLE_PULL": "missing", "HOME": str(tmp_path)}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"127.0.0.1:{silent.getsockname()[1]}/x/y:1"
        started = line.start("run", "--image", name, "true", stderr=subprocess.PIPE)
        # Who is told this has taken signals into its own hands; before, an interrupt is Python's.
        assert started.stderr is not None
        assert started.stderr.readline() == f"Image {name} is not here; pulling it\n".encode()
        connection, _ = silent.accept()
        with connection:
            started.send_signal(signal.SIGINT)
            _, said = started.communicate(timeout=60)
    assert (started.returncode, said) == (130, b"")
