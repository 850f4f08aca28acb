"""Ports of a sandbox that are reached from this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine, owner_pid

pytestmark = pytest.mark.vm

SERVER = "cd /srv && exec python3 -m http.server 8000"
ECHO = """
import socket
server = socket.create_server(("127.0.0.1", 7000))
print("up", flush=True)
while True:
    peer, _ = server.accept()
    while data := peer.recv(65536):
        peer.sendall(data.upper())
    peer.close()
"""


def free_port() -> int:
    """None of those that the kernel gives to whoever wants any: another would have it before we do."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in range(lowest - 1 - os.getpid() % 5000, 1024, -1):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port is taken")


@contextlib.contextmanager
def running(crucible: CommandLine, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = crucible.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=240)


def converse(port: int, data: bytes) -> bytes:
    """Sends everything, ends that half, and reads to the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=240) as peer:

        def send() -> None:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        received = b""
        while piece := peer.recv(65536):
            received += piece
        sender.join()
    return received


def test_a_port_of_a_run_is_published_and_gone_with_it(crucible: CommandLine) -> None:
    port = free_port()
    with running(crucible, "run", "-p", f"{port}:7000", "python3", "-c", ECHO) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        data = os.urandom(300_000).hex().encode()
        assert converse(port, data) == data.upper()
        answers = list[bytes]()
        threads = [
            threading.Thread(target=lambda: answers.append(converse(port, b"abc")))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        # The server inside takes one at a time: each waits for the one before, none is lost.
        for thread in threads:
            thread.join()
        assert answers == [b"ABC"] * 8
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_port_that_is_taken_is_told_before_anything_runs(crucible: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = crucible("run", "-p", f"{port}:80", "echo", "ran")
    assert (done.returncode, done.stdout) == (126, b"")
    assert b"(port-taken)" in done.stderr


def test_published_ports_survive_the_owner_and_are_for_copies_other_ones(
    crucible: CommandLine,
) -> None:
    port = free_port()
    crucible.ok("create", "web", "-p", f"{port}:8000", "--user", "root", "--start")
    try:
        crucible.ok("exec", "--detach", "web", "sh", "-c", SERVER)
        assert b"Directory listing" in fetch(port)
        pid = owner_pid(crucible.home)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        published = json.loads(crucible.ok("ports", "--json", "web"))["published"]
        assert published == [{"address": "127.0.0.1", "host": port, "guest": 8000}]
        assert b"Directory listing" in fetch(port)
        assert crucible.ok("ports", "web") == f"8000\t127.0.0.1:{port}\n"
        assert crucible.ok("open", "web", "--no-browser") == f"http://127.0.0.1:{port}/\n"
        crucible.ok("fork", "web")
        (other,) = json.loads(crucible.ok("ports", "--json", "web-1"))["published"]
        assert other["host"] not in (0, port)
        assert b"Directory listing" in fetch(other["host"])
        crucible.ok("stop", "web")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    finally:
        crucible("rm", "--force", "web", "web-1")


def test_a_port_that_is_not_published_is_opened_on_the_way(crucible: CommandLine) -> None:
    crucible.ok("create", "web", "--user", "root", "--start")
    try:
        crucible.ok("exec", "--detach", "web", "sh", "-c", SERVER)
        while crucible.ok("ports", "web") != "8000\n":
            time.sleep(0.1)
        with running(crucible, "open", "web", "8000", "--no-browser") as process:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            with urllib.request.urlopen(url) as answer:
                assert b"Directory listing" in answer.read()
    finally:
        crucible("rm", "--force", "web")


def test_a_port_that_opens_is_noticed_and_offered(crucible: CommandLine) -> None:
    crucible.ok("create", "web", "--start")
    serve = ("python3", "-m", "http.server", "8000")
    try:
        for words, how in (
            (("exec", "web", *serve), b"`crucible open web 8000`"),
            (("run", *serve), b"-p 8000"),
        ):
            with running(crucible, *words) as process:
                assert process.stderr is not None
                told = b"ports: 8000 was opened in the sandbox; reach it with " + how
                while told not in (line := process.stderr.readline()):
                    assert line
    finally:
        crucible("rm", "--force", "web")


def test_ports_of_the_file_are_published(crucible: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_text("[ports]\npublish = ['0:8000']\n")
    crucible.ok("create", "web", "--start", cwd=tmp_path)
    try:
        (port,) = json.loads(crucible.ok("ports", "--json", "web"))["published"]
        assert port["guest"] == 8000
        assert port["host"] > 0
    finally:
        crucible("rm", "--force", "web")


def fetch(port: int) -> bytes:
    """The page, once the server behind the port is up."""
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=240) as answer:
                body: bytes = answer.read()
                return body
        except OSError:
            time.sleep(0.1)
