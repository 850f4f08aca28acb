"""Secrets that a sandbox uses and never has, through the real command line against real TLS servers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import SHARED_PARTS, CommandLine, owner_pid
from tests.e2e.internet import Internet, internet

pytestmark = pytest.mark.vm

VALUE = "hunter2-a-value-that-is-nowhere"
BEARER = f"Bearer {VALUE}"
HOSTS = {
    "api.example.com": ["93.184.216.34"],
    "other.example.com": ["93.184.216.35"],
    "api.openai.com": ["93.184.216.36"],
}
SEND = 'curl -sS -H "Authorization: Bearer $TOKEN"'


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    names = ",".join(f"DNS:{name}" for name in HOSTS)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests",
         "-addext", f"subjectAltName={names}", "-keyout", directory / "key.pem", "-out", directory / "own.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    return directory / "own.pem"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[Internet]:
    servers = Path(__file__).with_name("servers.py")
    key = certificate.with_name("key.pem")
    with (
        internet(tmp_path_factory.mktemp("internet"), HOSTS) as made,
        made.serving(sys.executable, str(servers), str(certificate), str(key), ready=b"ready"),
    ):
        yield made


@pytest.fixture
def inside(crucible: CommandLine, world: Internet, certificate: Path) -> CommandLine:
    """The command line on that internet, of a person who has the secret and trusts its servers."""
    crucible.argv = [*world.argv, *crucible.argv]
    crucible.environment |= {"TOKEN": VALUE, "SSL_CERT_FILE": str(certificate)}
    return crucible


def got(output: bytes | str, header: str, value: str) -> bool:
    """Whether the server got this value. It tells digests: one that sends a value back is cut off."""
    found = {name.lower(): digest for name, digest in json.loads(output)["headers"].items()}
    return bool(found[header] == hashlib.sha256(value.encode()).hexdigest())


def test_the_server_gets_the_value_and_the_sandbox_only_a_placeholder(inside: CommandLine) -> None:
    script = f"echo $TOKEN >&2; {SEND} https://api.example.com/"
    done = inside("run", "--secret", "TOKEN:api.example.com", "sh", "-c", script)
    assert got(done.stdout, "authorization", f"Bearer {VALUE}")
    assert b"crucible-secret-token-" in done.stderr
    assert VALUE.encode() not in done.stderr


def test_common_programs_trust_the_authority_of_the_sandbox(inside: CommandLine) -> None:
    program = (
        "import json, os, urllib.request as u;"
        " request = u.Request('https://api.example.com/', headers={'X-Key': os.environ['TOKEN']});"
        " print(u.urlopen(request).read().decode())"
    )
    done = inside("run", "--secret", "TOKEN:api.example.com", "python3", "-c", program)
    assert got(done.stdout, "x-key", VALUE)
    script = (
        "git ls-remote https://api.example.com/x; curl -sS https://other.example.com/ -o /dev/null"
    )
    done = inside("run", "--secret", "TOKEN:api.example.com", "sh", "-c", script)
    # git got through TLS and is told that there is no repository; another host is not intercepted and not trusted.
    assert b"certificate" in done.stderr.split(b"curl")[1]
    assert b"certificate" not in done.stderr.split(b"curl")[0]


def test_every_image_of_a_sandbox_reaches_the_host_and_trusts_the_authority(
    inside: CommandLine,
) -> None:
    both = ("run", "--with", "peer=base", "--secret", "TOKEN:api.example.com")
    for words in (("nsexec", "peer", "sh", "-c"), ("--in", "peer", "sh", "-c")):
        done = inside(*both, *words, f"{SEND} https://api.example.com/", timeout=600)
        assert got(done.stdout, "authorization", BEARER), done.stderr


def test_a_header_is_filled_in_by_itself(inside: CommandLine) -> None:
    done = inside(
        "run",
        "--secret",
        "TOKEN:api.example.com:X-Api-Key",
        "curl",
        "-sS",
        "https://api.example.com/",
    )
    assert got(done.stdout, "x-api-key", VALUE)


def test_a_model_provider_has_a_plain_endpoint_inside(inside: CommandLine) -> None:
    inside.environment["OPENAI_API_KEY"] = VALUE
    send = 'curl -sS -w "\\n" -H "Authorization: Bearer $OPENAI_API_KEY"'
    script = f"echo $OPENAI_BASE_URL >&2; {send} $OPENAI_BASE_URL/models; {send} https://api.openai.com/v1/models"
    done = inside("run", "--secret", "OPENAI_API_KEY:api.openai.com", "sh", "-c", script)
    assert done.stderr == b"http://openai.crucible.internal/v1\n"
    answers = done.stdout.splitlines()
    assert len(answers) == 2
    for answer in answers:
        assert got(answer, "authorization", f"Bearer {VALUE}")
        assert json.loads(answer)["path"] == "/v1/models"


@pytest.mark.parametrize("target", ["http://other.example.com/", "http://api.example.com/"])
def test_a_placeholder_on_its_way_elsewhere_is_stopped_and_told(
    inside: CommandLine, target: str
) -> None:
    done = inside("run", "--secret", "TOKEN:api.example.com", "sh", "-c", f"{SEND} {target}")
    assert b"network: denied" in done.stderr
    assert b"TOKEN" in done.stderr
    assert b'"headers"' not in done.stdout


def test_a_secret_without_a_value_is_refused_before_anything_runs(inside: CommandLine) -> None:
    done = inside("run", "--secret", "NOSUCH:api.example.com", "echo", "ran")
    assert (done.returncode, done.stdout) == (126, b"")
    assert b"NOSUCH" in done.stderr


def test_the_value_is_written_down_nowhere(inside: CommandLine) -> None:
    inside.ok("create", "box", "--secret", "TOKEN:api.example.com", "--start")
    try:
        assert got(
            inside.ok("exec", "box", "sh", "-c", f"{SEND} https://api.example.com/"),
            "authorization",
            BEARER,
        )
        inside.ok("exec", "--detach", "box", "sleep", "1000")
        assert VALUE not in inside.ok(
            "exec", "box", "sh", "-c", "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'"
        )
        inside.ok("snapshot", "box", "moment")
        inside.ok("snapshot", "export", "moment", inside.home / "exported")
        shown = inside.ok("inspect", "--json", "box") + inside.ok(
            "logs", "--network", "--json", "box"
        )
        shown += inside.ok("network", "show", "box")
        assert VALUE not in shown
        found = [path for path in files_of(inside.home) if holds(path, VALUE.encode())]
        assert found == []
        listed = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
        assert VALUE not in listed
    finally:
        inside("rm", "--force", "box")
        inside("snapshot", "remove", "moment")


def test_a_sandbox_whose_owner_died_is_given_its_values_again(inside: CommandLine) -> None:
    inside.ok("create", "box", "--secret", "TOKEN:api.example.com", "--start")
    send = ("exec", "box", "sh", "-c", f"{SEND} https://api.example.com/")
    try:
        placeholder = inside.ok("exec", "box", "printenv", "TOKEN")
        pid = owner_pid(inside.home)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert not inside(*send).stdout or not got(inside(*send).stdout, "authorization", BEARER)
        told = inside("exec", "box", "true").stderr
        assert b"secrets: The values of TOKEN are not known" in told
        assert b"`crucible start box`" in told
        assert "TOKEN" in json.loads(inside.ok("inspect", "--json", "box"))["note"]
        inside.ok("start", "box")
        assert got(inside.ok(*send), "authorization", BEARER)
        assert b"secrets:" not in inside("exec", "box", "true").stderr
        assert inside.ok("exec", "box", "printenv", "TOKEN") == placeholder
        inside.ok("fork", "box")
        assert got(inside.ok("exec", "box-1", *send[2:]), "authorization", BEARER)
        inside.ok("stop", "box")
        inside.ok("start", "box")
        assert got(inside.ok(*send), "authorization", BEARER)
        inside.ok("stop", "box")
        inside.ok("rm", "--force", "box-1")
    finally:
        inside("rm", "--force", "box", "box-1")


def files_of(home: Path) -> list[Path]:
    """All that a sandbox can have left, without what was there before it."""
    found = [Path(directory, name) for directory, _, names in os.walk(home) for name in names]
    return [
        path
        for path in found
        if path.is_file() and path.relative_to(home).parts[0] not in SHARED_PARTS
    ]


def holds(path: Path, value: bytes) -> bool:
    """Looks at what is in a file, not at its holes: disks and memories are mostly those."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        at, size = 0, path.stat().st_size
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return False
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            file.seek(at)
            if value in file.read(end - at):
                return True
            at = end
    return False
