"""Sandboxes on a worker, from the command line: another home on this machine, behind a real sshd."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.backends.ssh_server import SshServer, end_shared, ssh_server
from tests.conftest import CommandLine, own_home

pytestmark = pytest.mark.vm

DEADLINE_S = 120.0


@pytest.fixture
def there(prepared_home: Path) -> Iterator[CommandLine]:
    """The worker, as its own people see it."""
    with own_home(prepared_home) as home:
        yield CommandLine(home)


@pytest.fixture
def server(there: CommandLine) -> Iterator[SshServer]:
    with ssh_server({"CRUCIBLE_HOME": str(there.home), "CRUCIBLE_OWNER_IDLE_S": "5"}) as running:
        yield running


@pytest.fixture
def here(crucible: CommandLine, server: SshServer) -> Iterator[CommandLine]:
    host = server.host()
    crucible.environment |= {
        "LOCAL_MICROVM_TRANSPORT": "ssh",
        "LOCAL_MICROVM_SSH_HOST": host.host,
        "LOCAL_MICROVM_SSH_USER": host.user,
        "LOCAL_MICROVM_SSH_PORT": str(host.port),
        "LOCAL_MICROVM_SSH_IDENTITY": host.identity,
        "LOCAL_MICROVM_SSH_KNOWN_HOSTS": host.known_hosts,
    }
    yield crucible
    end_shared(crucible.home)


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.1)


def test_a_sandbox_on_a_worker_outlives_the_connection_and_goes_when_it_is_removed(
    here: CommandLine, there: CommandLine, server: SshServer
) -> None:
    here.ok("create", "box", "--start")
    (listed,) = json.loads(here.ok("list", "--json"))
    assert (listed["state"], listed["backend"]) == ("running", "worker")
    assert listed["isolation"] == "software-vm (claimed)"
    (lent,) = json.loads(there.ok("list", "--json"))
    assert lent["state"] == "running"
    refused = there("exec", lent["name"], "true")
    assert (refused.returncode, b"sandbox-lent" in refused.stderr) == (125, True)

    running = here.start(
        "exec", "box", "sh", "-c", "echo kept >/tmp/x; echo up; sleep 900",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    server.cut()
    _, errors = running.communicate(timeout=DEADLINE_S)
    assert (running.returncode, b"worker-lost" in errors) == (125, True), errors

    server.start()
    until(lambda: here("exec", "box", "true").returncode == 0)
    assert here.ok("exec", "box", "cat", "/tmp/x") == "kept\n"
    here.ok("rm", "--force", "box")
    until(lambda: json.loads(there.ok("list", "--json")) == [])


def test_a_run_on_a_worker_is_a_run(here: CommandLine, there: CommandLine) -> None:
    done = here("run", "sh", "-c", "cat; echo err >&2; exit 7", input=b"in\x00\xff")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"in\x00\xff", b"err\n")
    until(lambda: json.loads(there.ok("list", "--json")) == [])
