"""Sandboxes and the network: the real command line, real servers under public names, an internet of our own."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CommandLine, owner_pid
from tests.e2e.internet import Internet, internet
from tests.e2e.leftovers import leftovers

pytestmark = pytest.mark.vm

HOSTS = {
    "site.example.com": ["93.184.216.34", "2606:2800:220:1::34"],
    "other.example.com": ["93.184.216.35"],
    "inner.example.com": ["10.0.0.5"],
    "rebound.example.com": ["127.0.0.1"],
    "linked.example.com": ["169.254.169.254"],
}
CONNECT = """
import socket, sys
try:
    peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
    peer.sendall(b"ping")
    print(peer.recv(100))
except OSError as error:
    print(type(error).__name__, error)
"""
TLS = """
import socket, ssl, sys
context = ssl._create_unverified_context()
try:
    peer = context.wrap_socket(socket.create_connection((sys.argv[1], 443), timeout=30),
                               server_hostname=sys.argv[2] or None)
    peer.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
    print("reached", peer.recv(15))
except OSError as error:
    print("refused")
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    directory = tmp_path_factory.mktemp("internet")
    names = ",".join(f"DNS:{name}" for name in HOSTS)
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests",
         "-addext", f"subjectAltName={names}", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    servers = Path(__file__).with_name("servers.py")
    with (
        internet(directory, HOSTS) as made,
        made.serving(sys.executable, str(servers), str(certificate), str(key), ready=b"ready"),
    ):
        yield made


@pytest.fixture
def inside(crucible: CommandLine, world: Internet) -> CommandLine:
    """The command line, on that internet."""
    crucible.argv = [*world.argv, *crucible.argv]
    return crucible


def python(crucible: CommandLine, program: str, *words: str, options: tuple[str, ...] = ()) -> str:
    done = crucible("run", *options, "python3", "-c", program, *words)
    return done.stdout.decode().strip()


def test_a_public_name_is_reached_by_every_way(inside: CommandLine) -> None:
    script = """
        curl -sS http://site.example.com/a
        curl -sSk https://site.example.com/b
        curl -sS http://93.184.216.34/c
        curl -sS 'http://[2606:2800:220:1::34]/d'
        python3 -c 'import socket; s = socket.create_connection(("site.example.com", 25)); print(s.recv(99))'
    """
    done = inside("run", "sh", "-c", script)
    paths = re.findall(rb'"path": "(.*?)"', done.stdout)
    assert (paths, done.stderr) == ([b"/a", b"/b", b"/c", b"/d"], b"")
    assert b"220 ready" in done.stdout
    assert leftovers(inside.home) == []


@pytest.mark.parametrize(
    "target", ["http://site.example.com/", "http://93.184.216.34/", "http://[2606:2800:220:1::34]/"]
)
def test_without_a_network_nothing_is_reached_and_with_it_the_same_client_gets_there(
    inside: CommandLine, target: str
) -> None:
    closed = inside("run", "--no-network", "curl", "-sS", target)
    assert closed.returncode in (6, 7)
    assert inside("run", "curl", "-sS", target).returncode == 0


@pytest.mark.parametrize(
    "host, port, rule",
    [
        ("site.example.com", 7000, "site.example.com:7000"),
        ("site.example.com", 80, "site.example.com"),
        ("93.184.216.34", 7000, "93.184.216.34:7000"),
        ("2606:2800:220:1::34", 7000, "[2606:2800:220:1::34]:7000"),
    ],
)
def test_what_no_rule_allows_is_denied_and_told_and_then_allowed(
    inside: CommandLine, host: str, port: int, rule: str
) -> None:
    words = ("python3", "-c", CONNECT, host, str(port))
    listed = ("--network", "allowlist", "--allow", "other.example.com")
    denied = inside("run", *listed, *words)
    assert b"ping" not in denied.stdout
    told = denied.stderr.decode()
    assert f"network: denied {host}:{port}" in told
    assert f"--allow {rule}`" in told
    if port == 7000:
        assert inside("run", *listed, "--allow", rule, *words).stdout == b"b'ping'\n"


@pytest.mark.parametrize(
    "name, rule",
    [
        ("inner.example.com", "inner.example.com+private"),
        ("rebound.example.com", "rebound.example.com+private"),
        ("linked.example.com", "169.254.169.254"),
    ],
)
def test_a_name_that_leads_inward_is_refused_unless_it_is_named(
    inside: CommandLine, name: str, rule: str
) -> None:
    denied = inside(
        "run", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"http://{name}/"
    )
    assert denied.stdout == b"403"
    assert f"--allow {rule}`".encode() in denied.stderr
    if name != "linked.example.com":
        allowed = inside("run", "--allow", rule, "curl", "-sS", f"http://{name}/reached")
        assert b"/reached" in allowed.stdout


def test_a_deny_rule_wins(inside: CommandLine) -> None:
    done = inside(
        "run", "--allow", "site.example.com", "--deny", "*.example.com", "curl", "-sS", "http://site.example.com"
    )  # fmt: skip
    assert b"denies it" in done.stderr


def test_tls_must_say_the_name_that_was_asked_for(inside: CommandLine) -> None:
    listed = ("--network", "allowlist", "--allow", "site.example.com")
    assert python(inside, TLS, "site.example.com", "other.example.com", options=listed) == "refused"
    assert python(inside, TLS, "site.example.com", "", options=listed) == "refused"
    assert python(inside, TLS, "site.example.com", "site.example.com", options=listed) == (
        "reached b'HTTP/1.1 200 OK'"
    )


def test_a_host_header_cannot_name_another(inside: CommandLine) -> None:
    listed = ("--network", "allowlist", "--allow", "site.example.com")
    forged = inside(
        "run", *listed, "curl", "-sS", "-H", "Host: other.example.com", "http://site.example.com/"
    )
    assert b"other.example.com" in forged.stderr
    assert b'"host"' not in forged.stdout
    second = inside("run", *listed, "curl", "-sS", "http://site.example.com/one", "-H", "Host: site.example.com",
                    "--next", "-sS", "-H", "Host: other.example.com", "http://site.example.com/two")  # fmt: skip
    assert b"/one" in second.stdout
    assert b"/two" not in second.stdout


def test_a_redirect_to_a_forbidden_host_is_a_new_question(inside: CommandLine) -> None:
    listed = ("--network", "allowlist", "--allow", "site.example.com")
    words = ("curl", "-sSL", "http://site.example.com/to/other.example.com")
    denied = inside("run", *listed, *words)
    assert b"network: denied other.example.com:80" in denied.stderr
    allowed = inside("run", *listed, "--allow", "other.example.com", *words)
    assert b'"host": "other.example.com"' in allowed.stdout


def test_names_never_leave_by_other_resolvers(inside: CommandLine) -> None:
    ask = """
import socket, struct, sys
query = b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6secret\\7example\\3com\\0\\0\\1\\0\\1"
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
    try:
        peer = socket.socket(socket.AF_INET, kind)
        peer.settimeout(10)
        peer.connect(("8.8.8.8", 53))
        peer.sendall(query if kind == socket.SOCK_DGRAM else struct.pack("!H", len(query)) + query)
        print("answered" if peer.recv(100) else "nothing")
    except OSError as error:
        print("refused")
"""
    listed = ("--network", "allowlist", "--allow", "site.example.com")
    assert set(python(inside, ask, options=listed).split()) <= {"refused", "nothing"}


def events(crucible: CommandLine, name: str) -> list[dict[str, Any]]:
    lines = crucible.ok("logs", "--network", "--json", name).splitlines()
    return [json.loads(line) for line in lines]


def test_rules_change_while_it_runs_and_everything_is_in_the_log(inside: CommandLine) -> None:
    inside.ok("create", "box", "--network", "allowlist", "--allow", "other.example.com", "--start")

    def fetched(count: int) -> subprocess.CompletedProcess[bytes]:
        """A connection is in the log when its server has ended it too, which may be after the command has."""
        done = inside("exec", "box", "curl", "-sS", "http://site.example.com/x")
        while len(events(inside, "box")) < count:
            time.sleep(0.05)
        return done

    try:
        denied = fetched(1)
        assert b"crucible network allow box site.example.com" in denied.stderr
        assert inside.ok("network", "allow", "box", "site.example.com").splitlines() == [
            "mode\tallowlist", "allow\tother.example.com", "allow\tsite.example.com",
        ]  # fmt: skip
        assert b'"/x"' in fetched(2).stdout
        inside.ok("network", "remove", "box", "site.example.com")
        assert b'"/x"' not in fetched(2).stdout
        inside.ok("network", "mode", "box", "off")
        assert fetched(2).returncode == 6
        inside.ok("network", "mode", "box", "full")
        assert b'"/x"' in fetched(4).stdout
        seen = [(event["outcome"], event["name"], event["port"]) for event in events(inside, "box")]
        assert seen == [
            ("denied", "site.example.com", 80), ("allowed", "site.example.com", 80),
            ("denied", "site.example.com", 80), ("allowed", "site.example.com", 80),
        ]  # fmt: skip
        allowed = events(inside, "box")[1]
        assert allowed["rule"] == "site.example.com"
        assert allowed["bytes_up"] > 50
        assert allowed["bytes_down"] > 100
        assert "denied" in inside.ok("logs", "--network", "box")
        with sqlite3.connect(inside.home / "records.sqlite") as records:
            lines = [
                json.loads(row[0])
                for row in records.execute(
                    "SELECT detail FROM audit WHERE verb = 'exec' ORDER BY number"
                )
            ]
        records.close()
        assert lines[0]["network"][0]["outcome"] == "denied"
        assert lines[0]["policy"]["network"] == "allowlist"
    finally:
        inside("rm", "--force", "box")


def test_an_open_connection_is_cut_when_its_rule_goes(inside: CommandLine) -> None:
    inside.ok(
        "create", "box", "--network", "allowlist", "--allow", "site.example.com:7000", "--start"
    )
    hold = (
        "import socket; s = socket.create_connection(('site.example.com', 7000)); s.sendall(b'a'); s.recv(1);"
        " print('open', flush=True)\ntry: print(s.recv(1))\nexcept OSError as e: print(type(e).__name__)"
    )
    try:
        client = inside.start("exec", "box", "python3", "-c", hold, stdout=subprocess.PIPE)
        assert client.stdout is not None
        assert client.stdout.readline() == b"open\n"
        inside.ok("network", "remove", "box", "site.example.com:7000")
        assert client.communicate(timeout=240)[0] in (b"ConnectionResetError\n", b"b''\n")
    finally:
        inside("rm", "--force", "box")


def test_the_network_is_there_again_after_the_owner_died_and_in_copies(inside: CommandLine) -> None:
    inside.ok("create", "box", "--network", "allowlist", "--allow", "site.example.com", "--start")
    try:
        pid = owner_pid(inside.home)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        words = ("curl", "-sS", "http://site.example.com/x")
        assert b'"/x"' in inside("exec", "box", *words).stdout
        inside.ok("fork", "box")
        assert b'"/x"' in inside("exec", "box-1", *words).stdout
        other = inside("exec", "box-1", "curl", "-sS", "http://other.example.com/x")
        assert b"network: denied other.example.com" in other.stderr
        inside.ok("stop", "box")
        inside.ok("start", "box")
        assert b'"/x"' in inside("exec", "box", *words).stdout
    finally:
        inside("rm", "--force", "box", "box-1")


def test_two_hundred_connections_at_once(inside: CommandLine) -> None:
    many = """
import socket, threading
open_ones = [socket.create_connection(("site.example.com", 7000), timeout=240) for _ in range(200)]
for number, peer in enumerate(open_ones): peer.sendall(b"%03d" % number)
print(sum(peer.recv(3, socket.MSG_WAITALL) == b"%03d" % number for number, peer in enumerate(open_ones)))
"""
    assert python(inside, many) == "200"


def test_large_streams_arrive_whole_both_ways(inside: CommandLine) -> None:
    script = """
        curl -sS http://site.example.com/size/30000000 | wc -c
        head -c 30000000 /dev/zero | curl -sS -H 'Content-Type: x' --data-binary @- http://site.example.com/
    """
    assert inside("run", "sh", "-c", script).stdout == b"30000000\n30000000"


def test_a_rule_that_is_none_is_refused_before_anything_runs(inside: CommandLine) -> None:
    done = inside("run", "--allow", "http://x/", "echo", "ran")
    assert (done.returncode, done.stdout) == (126, b"")
    assert b"(bad-setting)" in done.stderr
