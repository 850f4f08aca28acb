"""A server inside a sandbox, reached from the host's loopback by the real command line."""

from __future__ import annotations

import subprocess
import urllib.request

import pytest
from tests.conftest import CommandLine

pytestmark = pytest.mark.vm


def test_a_server_inside_is_listed_and_can_be_reached(crucible: CommandLine) -> None:
    crucible.ok("create", "web")
    crucible.ok("start", "web")
    crucible.ok("exec", "web", "sh", "-c", "echo greetings > /workspace/index.txt")
    crucible.ok("exec", "--detach", "web", "python3", "-m", "http.server", "8080")
    wait = "until curl -sf localhost:8080 >/dev/null; do sleep 0.1; done"
    crucible.ok("exec", "web", "sh", "-c", wait)
    assert crucible.ok("ports", "web") == "8080\n"
    forwarding = crucible.start(
        "ports", "web", "--forward", "0:8080", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert forwarding.stdout is not None
    assert forwarding.stderr is not None
    try:
        address = forwarding.stdout.readline().decode().split(" -> ")[0]
        for _ in range(2):
            with urllib.request.urlopen(f"http://{address}/index.txt", timeout=120) as answer:
                assert answer.read() == b"greetings\n"
    finally:
        forwarding.terminate()
        forwarding.wait(120)
        forwarding.stdout.close()
        forwarding.stderr.close()
    crucible.ok("rm", "--force", "web")


def test_a_port_that_is_none_is_refused(crucible: CommandLine) -> None:
    done = crucible("ports", "web", "--forward", "80:http")
    assert done.returncode == 126
    assert b"names no ports" in done.stderr
