"""A server of E2B's clients that is killed, and the one that comes after it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.conftest import CommandLine

from crucible.sandbox.records import open_records

pytestmark = pytest.mark.vm

_URL = re.compile(rb"Serving on (http://\S+)")
_PATIENCE_S = 120.0


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def serving(crucible: CommandLine, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Killed at the end, without a chance to put anything in order."""
    with log.open("wb") as output:
        process = crucible.start("serve", "--port", "0", stdout=output, stderr=output)
    try:
        until(lambda: process.poll() is not None or _URL.search(log.read_bytes()) is not None)
        found = _URL.search(log.read_bytes())
        assert found is not None, log.read_text()
        yield process, found.group(1).decode()
    finally:
        process.kill()
        process.wait()


def state_of(home: Path, name: str) -> str:
    records = open_records(home)
    try:
        return str(records.find(name).state)
    finally:
        records.close()


def test_contexts_and_timers_outlive_the_server(crucible: CommandLine, tmp_path: Path) -> None:
    token = crucible.ok("token", "create", "test").strip()
    key = {"X-API-Key": token}
    with serving(crucible, tmp_path / "first.log") as (_, url):
        body = {
            "templateID": "base",
            "timeout": 600,
            "autoPause": True,
            "allow_internet_access": False,
        }
        made = httpx.post(f"{url}/e2b/v2/sandboxes", json=body, headers=key, timeout=120)
        assert made.status_code == 201, made.text
        name = made.json()["sandboxID"]
        inside = {"E2b-Sandbox-Id": name, "X-Access-Token": made.json()["envdAccessToken"]}
        code = {"code": "x = 41"}
        ran = httpx.post(f"{url}/e2b/execute", json=code, headers=inside, timeout=120)
        assert ran.status_code == 200, ran.text
    with serving(crucible, tmp_path / "second.log") as (_, url):
        code = {"code": "x + 1"}
        ran = httpx.post(f"{url}/e2b/execute", json=code, headers=inside, timeout=120)
        assert '"42"' in ran.text, ran.text
        sooner = f"{url}/e2b/sandboxes/{name}/timeout"
        assert httpx.post(sooner, json={"timeout": 2}, headers=key, timeout=120).status_code == 204
    with serving(crucible, tmp_path / "third.log"):
        # Nobody asks this one for anything.
        until(lambda: state_of(crucible.home, name) == "paused")
    crucible.ok("rm", "--force", name)
    for log in tmp_path.glob("*.log"):
        assert b"Traceback" not in log.read_bytes(), log.read_text()
