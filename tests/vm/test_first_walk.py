"""One command and one named sandbox through the whole product."""

from __future__ import annotations

import pytest
from tests.conftest import CommandLine

pytestmark = pytest.mark.vm


def test_a_run_gives_the_commands_output_and_status(crucible: CommandLine) -> None:
    done = crucible("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_a_named_sandbox_keeps_its_disk_over_a_stop(crucible: CommandLine) -> None:
    crucible.ok("create", "box")
    crucible.ok("start", "box")
    crucible.ok("exec", "box", "sh", "-c", "echo kept > /workspace/note")
    crucible.ok("stop", "box")
    crucible.ok("start", "box")
    assert crucible.ok("exec", "box", "cat", "/workspace/note") == "kept\n"
    crucible.ok("rm", "--force", "box")
