"""`crucible serve` as a process of its own: the guide typed in, its end, its successor."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.conftest import CommandLine
from tests.docs.pages import ROOT, Page

pytestmark = pytest.mark.vm

GUIDE = ROOT / "docs/guides/http-api.md"


def started(crucible: CommandLine, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    """The server, and where it listens."""
    process = crucible.start("serve", "--port", "0", *words, stderr=subprocess.PIPE)
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    while line and not line.startswith("Serving on"):
        line = process.stderr.readline().decode()
    found = re.search(r"http://\S+", line)
    assert found, line
    return process, found[0]


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@contextmanager
def served(crucible: CommandLine, *words: str) -> Iterator[str]:
    """In the end it is told to leave, and does."""
    process, url = started(crucible, *words)
    try:
        yield url
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
        assert process.returncode == 0
    finally:
        ended(process)


def test_the_guide_goes_as_it_is_written(crucible: CommandLine, tmp_path: Path) -> None:
    page = Page(path=GUIDE, text=GUIDE.read_text(encoding="utf-8"))
    with served(crucible) as url:
        token = crucible.ok("token", "create", "guide", "--scope", "admin").strip()
        for script in page.blocks("bash"):
            done = subprocess.run(
                ["bash", "-euc", script],
                env={**crucible.environment, "CRUCIBLE_URL": url, "CRUCIBLE_TOKEN": token},
                cwd=tmp_path,
                capture_output=True,
                timeout=200,
            )
            said = done.stdout.decode()
            assert done.returncode == 0, done.stderr
            assert '"code"' not in said, (script, said)
            if "6 * 7" in script:
                assert json.loads(said)["output"] == "42\n"
        crucible.ok("rm", "--force", "box")


def test_a_sandbox_and_its_command_go_on_when_the_server_is_killed(crucible: CommandLine) -> None:
    process, url = started(crucible, "--no-auth")
    with httpx.Client(base_url=url, timeout=120) as client:
        made = client.post(
            "/api/v1/sandboxes", json={"name": "box", "settings": {"network": "off"}}
        )
        assert made.status_code == 201, made.text
        asked = {"argv": ["sh", "-c", "echo before; read x; echo after $x"], "wants_input": True}
        number = client.post("/api/v1/sandboxes/box/commands", json=asked).json()["id"]
    ended(process)
    with served(crucible, "--no-auth") as url, httpx.Client(base_url=url, timeout=120) as client:
        at = f"/api/v1/sandboxes/box/commands/{number}"
        assert client.get(at).json()["state"] == "running"
        assert client.post(f"{at}/input", content=b"it\n").status_code == 204
        told = client.get(f"{at}/output").text
        assert '"before\\n' in told
        assert "after it" in told
        assert client.delete("/api/v1/sandboxes/box?force=true").status_code == 204


def test_two_servers_cannot_hold_the_same_sandboxes(crucible: CommandLine) -> None:
    with served(crucible):
        done = crucible("serve", "--port", "0")
        assert done.returncode == 126
        assert b"door-open" in done.stderr


def test_no_auth_is_for_this_machine_alone(crucible: CommandLine) -> None:
    done = crucible("serve", "--host", "0.0.0.0", "--no-auth")
    assert done.returncode == 126
    assert b"need a token" in done.stderr


def test_the_command_line_uses_the_same_sandboxes(crucible: CommandLine) -> None:
    with served(crucible, "--no-auth") as url, httpx.Client(base_url=url, timeout=120) as client:
        crucible.ok("create", "box", "--network", "off", "--start")
        told = client.post("/api/v1/sandboxes/box/exec", json={"argv": ["hostname"]}).json()
        assert told["output"] == crucible.ok("exec", "box", "hostname")
        assert client.delete("/api/v1/sandboxes/box?force=true").status_code == 204
        assert crucible.ok("list", "--quiet") == ""
