"""Behind another server that has the certificate: what is public is what was set, whatever a request says of itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.conftest import Run
from tests.database import sqlite_template
from tests.server.browsers import PASSWORD
from tests.server.conftest import Server, serving
from tests.server.provider import provider
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from crucible.accounts import passwords
from crucible.errors import BadSetting
from crucible.server.access import OidcSettings
from crucible.server.doorway import doorway
from crucible.server.listening import Address
from crucible.store.names import FILE_NAME

__all__ = ["sqlite_template"]

PUBLIC = "https://crucible.test"
SIGN_IN = "/api/v1/auth/sign-in"
FORGED = [
    {},
    {"Host": "crucible.test"},
    {"Host": "crucible.test:80"},
    {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.test"},
    {"Forwarded": "host=evil.test;proto=http", "X-Forwarded-Ssl": "off"},
]


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "MEMORY_KIB", 8 * passwords.LANES)
        patch.setattr(passwords, "PASSES", 1)
        yield


@pytest.fixture(scope="module")
def behind(
    run: Run, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path, _quick: None
) -> Iterator[Server]:
    """With somebody who can sign in, here or elsewhere."""
    home = tmp_path_factory.mktemp("behind") / "home"
    home.mkdir(mode=0o700)
    shutil.copy(sqlite_template, home / FILE_NAME)
    with provider() as elsewhere:
        settings = OidcSettings(issuer=elsewhere.issuer, client_id="crucible")
        context = serving(home, has_accounts=True, public_url=PUBLIC, oidc=settings)
        server = run(context.__aenter__())
        run(_add(server))
        yield server
        run(context.__aexit__(None, None, None))


async def _add(server: Server) -> None:
    await (await server.domain.people.get()).logins.add_first("ada", PASSWORD)


async def _sign_in(server: Server, headers: dict[str, str]) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
        fields = {"name": "ada", "password": PASSWORD}
        return await client.post(SIGN_IN, json=fields, headers=headers)


@pytest.mark.parametrize("headers", FORGED, ids=str)
async def test_the_way_back_is_at_the_public_address(
    behind: Server, headers: dict[str, str]
) -> None:
    async with httpx.AsyncClient(base_url=behind.url, timeout=120) as client:
        answer = await client.get("/api/v1/auth/oidc/oidc/begin", headers=headers)
    assert answer.status_code == 303, answer.text
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert query["redirect_uri"] == [f"{PUBLIC}/api/v1/auth/oidc/oidc/back"]
    assert "secure" in answer.headers["set-cookie"].lower().split("; ")


@pytest.mark.parametrize("headers", FORGED, ids=str)
async def test_a_cookie_is_for_tls_alone(behind: Server, headers: dict[str, str]) -> None:
    answer = await _sign_in(behind, headers)
    assert answer.is_success, answer.text
    assert "secure" in answer.headers["set-cookie"].lower().split("; ")


async def test_a_host_that_is_not_ours_is_refused_all_the_same(behind: Server) -> None:
    for host in ("evil.test", "crucible.test.evil.test", "evil.test/crucible.test"):
        assert (await _sign_in(behind, {"Host": host})).status_code == 403
    forwarded = {"Host": "evil.test", "X-Forwarded-Host": "crucible.test"}
    assert (await _sign_in(behind, forwarded)).status_code == 403


@pytest.mark.parametrize("host", ["crucible.test", None], ids=["passed-on", "made-anew"])
async def test_pages_at_the_public_address_may_call_and_no_others(
    behind: Server, host: str | None
) -> None:
    own = {} if host is None else {"Host": host}
    assert (await _sign_in(behind, {**own, "Origin": PUBLIC})).is_success
    for origin in (
        # A page that came without TLS could have been put there by anybody on the way.
        "http://crucible.test", "https://crucible.test:8443", "https://evil.test", "null",
        "https://crucible.test.evil.test", "https://crucible.test@evil.test", "https://a.crucible.test",
    ):  # fmt: skip
        answer = await _sign_in(behind, {**own, "Origin": origin})
        assert answer.status_code == 403, origin


@pytest.mark.parametrize(
    "origin, status", [(PUBLIC, 404), ("http://crucible.test", 403), ("https://evil.test", 403)]
)
async def test_a_socket_is_for_pages_at_the_public_address(
    behind: Server, origin: str, status: int
) -> None:
    text = (await _sign_in(behind, {})).cookies["crucible_session"]
    url = behind.url.replace("http://", "ws://") + "/api/v1/sandboxes/none/terminal"
    headers = {"Cookie": f"crucible_session={text}"}
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, origin=origin, additional_headers=headers, open_timeout=120):  # type: ignore[arg-type]
            pass
    assert refused.value.response.status_code == status


async def test_links_are_told_at_the_public_address(behind: Server) -> None:
    async with behind.local() as owner:
        assert (await owner.post("/api/v1/auth/links")).json()["url"] == f"{PUBLIC}/sign-in"


async def test_without_one_no_header_makes_a_connection_secure(
    run: Run, tmp_path: Path, sqlite_template: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(sqlite_template, home / FILE_NAME)
    async with serving(home, has_accounts=True) as server:
        await _add(server)
        for headers in ({"X-Forwarded-Proto": "https"}, {"Forwarded": "proto=https"}):
            answer = await _sign_in(server, headers)
            assert "secure" not in answer.headers["set-cookie"].lower().split("; ")


async def test_from_behind_the_first_to_sign_up_needs_the_printed_code(
    run: Run, tmp_path: Path, sqlite_template: Path
) -> None:
    """Also where the other server tells nothing of who asks: all come from this machine then."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(sqlite_template, home / FILE_NAME)
    async with serving(home, has_accounts=True, public_url=PUBLIC) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            fields = {"name": "mallory", "password": PASSWORD}
            answer = await client.post("/api/v1/auth/sign-up", json=fields)
        assert answer.json()["code"] == "code-refused"


@pytest.mark.parametrize(
    "text, origin",
    [
        ("https://crucible.example", "https://crucible.example"),
        ("https://Crucible.Example/", "https://crucible.example"),
        ("https://crucible.example:443", "https://crucible.example"),
        ("https://crucible.example:8443", "https://crucible.example:8443"),
        ("http://localhost:3000", "http://localhost:3000"),
    ],
)
def test_an_address_is_kept_as_browsers_write_it(text: str, origin: str) -> None:
    assert doorway({}, environment={"CRUCIBLE_PUBLIC_URL": text}).public_url == origin


@pytest.mark.parametrize(
    "text",
    [
        "crucible.example", "http://crucible.example", "ftp://crucible.example", "https://",
        "https://a b", "https://user@crucible.example", "https://crucible.example/path",
        "https://crucible.example?x", "https://crucible.example#x", "https://crucible.example:0",
        "https://crucible.example:99999", "https://crucible.example\nHost: x", "https://" + "a" * 300,
    ],
)  # fmt: skip
def test_what_is_no_public_address_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="PUBLIC_URL"):
        doorway({}, environment={"CRUCIBLE_PUBLIC_URL": text})


def test_nobody_is_let_in_unknown_behind_a_public_address() -> None:
    with pytest.raises(BadSetting, match="without being known"):
        Address(needs_token=False, public_url=PUBLIC)
