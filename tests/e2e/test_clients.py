"""Programs that know nothing of us, through the network of a sandbox: pip, git and apt against real servers.

Each is refused without its rule and does its work with it, in one machine on an internet of the tests' own.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.e2e.internet import internet

pytestmark = pytest.mark.vm

HOSTS = {
    "pypi.example.com": ["93.184.216.34"],
    "git.example.com": ["93.184.216.35"],
    "daemon.example.com": ["93.184.216.36"],
    "apt.example.com": ["93.184.216.37"],
}
PIP = """
set -e
pip install -q --retries 0 --no-cache-dir --no-compile --no-deps --target /tmp/installed \
    --index-url http://pypi.example.com/simple --trusted-host pypi.example.com tiny
PYTHONPATH=/tmp/installed python3 -c 'import tiny; print(tiny.WORD)'
"""
APT = """
set -e
echo 'deb [trusted=yes] http://apt.example.com/debian ./' > /tmp/sources.list
apt() {
    apt-get -qq -o Dir::Etc::sourcelist=/tmp/sources.list -o Dir::Etc::sourceparts=- \
        -o APT::Update::Error-Mode=any -o Acquire::Retries=0 "$@"
}
apt update
apt install -y tiny > /dev/null
cat /usr/share/tiny/word
"""


def clone(address: str) -> str:
    return f'cd "$(mktemp -d)" && git clone -q {address} && cat word/word'


@pytest.fixture(scope="module")
def box(module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The command line on that internet, with a machine `box` that may reach none of it."""
    directory = tmp_path_factory.mktemp("internet")
    site = directory / "site"
    _make_index(site)
    _make_repository(site / "word.git", directory / "work")
    _make_packages(site / "debian", directory / "package")
    crucible = CommandLine(module_home)
    core = subprocess.check_output(["git", "--exec-path"], text=True).strip()
    with (
        internet(directory, HOSTS) as made,
        made.serving(
            *(sys.executable, "-u", "-m", "http.server", "80", "--bind", "::"),
            *("--directory", str(site)),
            ready=b"Serving HTTP",
        ),
        made.serving(
            *("sh", "-c", 'exec "$@" 2>&1', "sh", f"{core}/git-daemon", "--verbose"),
            *("--log-destination=stderr", "--export-all", f"--base-path={site}", str(site)),
            ready=b"Ready to rumble",
        ),
    ):
        crucible.argv = [*made.argv, *crucible.argv]
        crucible.ok(
            "create", "box", "--network", "allowlist", "--allow", "nothing.example.com", "--start"
        )
        try:
            yield crucible
        finally:
            crucible("rm", "--force", "box")


@pytest.mark.parametrize(
    "user, script, host, port, rule",
    [
        ("user", PIP, "pypi.example.com", 80, "pypi.example.com"),
        ("user", clone("http://git.example.com/word.git"), "git.example.com", 80, "git.example.com"),
        ("user", clone("git://daemon.example.com/word.git"), "daemon.example.com", 9418, "daemon.example.com:9418"),
        ("root", APT, "apt.example.com", 80, "apt.example.com"),
    ],
    ids=["pip", "git over HTTP", "git's own protocol", "apt"],
)  # fmt: skip
def test_a_client_is_refused_without_its_rule_and_works_with_it(
    box: CommandLine, user: str, script: str, host: str, port: int, rule: str
) -> None:
    words = ("exec", "--user", user, "box", "sh", "-c", script)
    denied = box(*words, timeout=300)
    told = denied.stderr.decode()
    assert denied.returncode not in (0, 124, 125, 126, 127), told
    assert f"network: denied {host}:{port}" in told
    assert f"`crucible network allow box {rule}`" in told
    box.ok("network", "allow", "box", rule)
    allowed = box(*words, timeout=300)
    assert (allowed.stdout, allowed.returncode) == (b"fetched\n", 0), allowed.stderr


def _make_index(site: Path) -> None:
    """A package index is a directory per project: the listing that the server makes of it has the links."""
    project = site / "simple" / "tiny"
    project.mkdir(parents=True)
    with zipfile.ZipFile(project / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "WORD = 'fetched'\n")
        info = "tiny-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        names = ("tiny.py", f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD")
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))


def _make_repository(repository: Path, work: Path) -> None:
    """A bare repository that a server which knows nothing of git can serve, too."""
    _git("init", "-q", str(work))
    (work / "word").write_text("fetched\n")
    _git("-C", str(work), "add", "word")
    who = ("-c", "user.name=Tests", "-c", "user.email=tests@example.com")
    _git(*who, "-C", str(work), "commit", "-q", "-m", "A word")
    _git("clone", "-q", "--bare", str(work), str(repository))
    _git("-C", str(repository), "update-server-info")


def _make_packages(repository: Path, tree: Path) -> None:
    """A flat Debian repository with one package, and an index of it that is written by hand."""
    control = (
        "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: Tests <tests@example.com>\n"
    )
    control += "Description: a word\n"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(control)
    (tree / "usr/share/tiny").mkdir(parents=True)
    (tree / "usr/share/tiny/word").write_text("fetched\n")
    repository.mkdir()
    package = repository / "tiny.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(tree), str(package)],
        check=True, capture_output=True,
    )  # fmt: skip
    data = package.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    (repository / "Packages").write_text(
        f"{control}Filename: ./tiny.deb\nSize: {len(data)}\nSHA256: {digest}\n"
    )


def _git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)
