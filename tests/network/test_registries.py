"""`@registries` is what the host's own package clients use: their settings, what is built into them, and downloads."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from crucible.network import indexes
from crucible.network.indexes import find, with_registries
from crucible.network.policy import Policy
from crucible.network.registries import Host, built_in, configured

PIP_HELP = """
  -i, --index-url <url>       Base URL of the Python Package Index (default https://pip.example/simple). This
  --extra-index-url <url>     Extra URLs of package indexes.
"""


class Clients:
    """Programs that answer as the real ones do."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, argv: list[str]) -> str:
        self.asked.append(" ".join(argv))
        name = "pip" if argv[:3] == ["python3", "-m", "pip"] else argv[0]
        return self.answers.get(name, "")


def host(
    root: Path, files: dict[str, str], clients: Clients | None = None, **variables: str
) -> Host:
    for name, text in files.items():
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return Host({"HOME": "/home/me", **variables}, root=root, ask=clients or Clients())


def urls(found: Host, client: str) -> list[str]:
    return [source.url for source in configured(found) if source.client == client]


def test_pip_is_read_from_files_and_variables_without_passwords(tmp_path: Path) -> None:
    made = host(
        tmp_path,
        {
            "/etc/pip.conf": "[global]\nindex-url = https://me:secret@mirror.example:8443/simple\n",
            "/home/me/.config/pip/pip.conf": "[install]\nextra-index-url =\n    https://a.example/x\n"
            "    https://b.example/y\nfind-links = file:///opt/wheels\n",
            "/home/me/.config/uv/uv.toml": '[[index]]\nurl = "https://uv.example/simple"\n',
        },
        PIP_EXTRA_INDEX_URL="http://env.example/simple",
    )
    found = urls(made, "pip")
    assert set(found) == {
        "https://mirror.example:8443/simple",
        "https://a.example/x",
        "https://b.example/y",
        "https://uv.example/simple",
        "http://env.example/simple",
    }
    assert "secret" not in repr(found)


def test_npm_apt_cargo_and_go_are_read(tmp_path: Path) -> None:
    made = host(
        tmp_path,
        {
            "/home/me/.npmrc": "registry=https://npm.example/\n@corp:registry=https://corp.example/npm/\n"
            "//npm.example/:_authToken=secret\n",
            "/etc/apt/sources.list": "# deb http://no.example/ x y\n"
            "deb [arch=amd64] http://deb.example/debian x main\n",
            "/etc/apt/sources.list.d/a.sources": "Types: deb\nURIs: https://one.example/x\n https://two.example/y\n"
            "Suites: x\n\nTypes: deb\nEnabled: no\nURIs: https://off.example/\n",
            "/home/me/.cargo/config.toml": '[registries.corp]\nindex = "sparse+https://cargo.example/index/"\n',
            "/home/me/.cargo/registry/index/crates.example-6f17d22bba15001f/x": "",
            "/home/me/.config/go/env": "GOPROXY=https://go.example|direct\nGOSUMDB=sum.example+0123+abc\n",
        },
    )
    assert urls(made, "npm") == ["https://npm.example/", "https://corp.example/npm/"]
    assert urls(made, "apt") == [
        "http://deb.example/debian",
        "https://one.example/x",
        "https://two.example/y",
    ]
    assert urls(made, "cargo") == ["https://cargo.example/index/", "https://crates.example/"]
    assert urls(made, "go") == ["https://go.example/", "https://sum.example/"]


def test_what_is_built_into_a_client_is_asked_of_it(tmp_path: Path) -> None:
    clients = Clients(
        pip=PIP_HELP, npm="https://npm.example/\n", go="https://go.example,direct\nsum.example\n"
    )
    made = host(tmp_path, {}, clients)
    found = [source.url for source in built_in(made, configured(made))]
    assert found == [
        "https://pip.example/simple",
        "https://npm.example/",
        "https://go.example/",
        "https://sum.example/",
    ]


def test_pip_is_not_asked_when_it_was_told(tmp_path: Path) -> None:
    clients = Clients(pip=PIP_HELP)
    made = host(
        tmp_path, {"/etc/pip.conf": "[global]\nindex-url=https://mirror.example/\n"}, clients
    )
    assert built_in(made, configured(made)) == ()


@pytest.mark.parametrize(
    "text",
    [
        "\0\xff",
        "[global\nindex-url",
        "index-url=https://[::1",
        "[global]\nindex-url = https://x:99999999/\n",
        "=" * 9000,
    ],
)
def test_settings_that_make_no_sense_are_passed_over(tmp_path: Path, text: str) -> None:
    names = (
        "/etc/pip.conf",
        "/home/me/.npmrc",
        "/home/me/.cargo/config.toml",
        "/etc/apt/sources.list",
    )
    made = host(tmp_path, dict.fromkeys(names, text), PIP_INDEX_URL=text)
    assert isinstance(configured(made), tuple)


@contextmanager
def index(pages: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def test_hosts_that_an_index_links_to_are_in_the_set(tmp_path: Path) -> None:
    pages = {
        "/simple/pip/": '<a href="https://files.example/pip.whl#sha256=0">x</a> <a href="../../own.whl">y</a>',
        "/npm/semver/latest": json.dumps(
            {"dist": {"tarball": "https://tarballs.example:8443/s.tgz"}}
        ),
        "/cargo/config.json": json.dumps({"dl": "https://crates.example/api/v1", "api": None}),
    }
    with index(pages) as (base, _):
        made = host(
            tmp_path,
            {
                "/home/me/.npmrc": f"registry={base}/npm/",
                "/home/me/.cargo/config.toml": f'[registries.x]\nindex = "sparse+{base}/cargo/"\n',
            },
            PIP_INDEX_URL=f"{base}/simple",
        )
        texts = {rule.text for rule in find(made)}
    own = base.removeprefix("http://")
    assert texts == {
        f"{own}+private",
        "files.example:443",
        "tarballs.example:8443",
        "crates.example:443",
    }


def test_a_mirror_of_the_company_is_reached_inside_on_its_port_alone(tmp_path: Path) -> None:
    with index({}) as (base, _):
        made = host(tmp_path, {}, PIP_INDEX_URL=f"{base}/simple")
        policy = with_registries(Policy.parse("allowlist", ["@registries"]), made)
    port = int(base.rpartition(":")[2])
    assert policy.decide("", "127.0.0.1", port).allowed
    assert not policy.decide("", "127.0.0.1", 22).allowed
    assert not policy.decide("", "127.0.0.2", port).allowed


def test_what_an_index_links_to_is_a_neighbour_only_if_the_two_belong_together() -> None:
    assert indexes._are_siblings("https://files.corp.example/", "https://pypi.corp.example/")
    assert not indexes._are_siblings("https://files.example/", "https://pypi.example/")
    assert not indexes._are_siblings("https://evil.example/", "https://pypi.corp.example/")


def test_answers_are_kept_until_a_setting_changes(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "registries.json"
    page = {"/simple/pip/": '<a href="https://files.example/x">'}
    with index(page) as (base, asked):
        first = find(host(tmp_path, {}, PIP_INDEX_URL=f"{base}/simple"), cache)
        assert find(host(tmp_path, {}, PIP_INDEX_URL=f"{base}/simple"), cache) == first
        assert asked == ["/simple/pip/"]
        find(host(tmp_path, {}, PIP_INDEX_URL=f"{base}/simple/"), cache)
        assert len(asked) == 2
    assert "files.example" in cache.read_text()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mark": 1, "until": "x", "rules": []}', "\0"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, text: str) -> None:
    cache = tmp_path / "registries.json"
    cache.write_text(text)
    made = host(tmp_path, {"/etc/apt/sources.list": "deb http://deb.example/debian x main\n"})
    assert [rule.text for rule in find(made, cache)] == ["deb.example:80+private"]


def test_an_index_that_does_not_answer_is_still_in_the_set(tmp_path: Path) -> None:
    with index({}) as (base, _):
        made = host(tmp_path, {}, PIP_INDEX_URL=f"{base}/simple")
        assert [rule.text for rule in find(made)] == [base.removeprefix("http://") + "+private"]


def test_passwords_are_in_no_rule_and_not_in_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "registries.json"
    made = host(tmp_path, {"/etc/apt/sources.list": "deb http://me:hunter2@deb.example/x y main\n"})
    assert "hunter2" not in repr(find(made, cache))
    assert "hunter2" not in cache.read_text()


def test_this_hosts_own_clients_can_be_asked() -> None:
    made = Host()
    assert all(source.url.startswith(("http://", "https://")) for source in configured(made))
