"""Signing in with who one is elsewhere, against a provider that is there, and one that lies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.conftest import Run
from tests.database import sqlite_template
from tests.server.browsers import PASSWORD, Browser, browser
from tests.server.conftest import Server, serving
from tests.server.provider import CLIENT, SECRET, Provider, provider

from crucible.accounts import passwords
from crucible.errors import BadSetting
from crucible.server import oidc
from crucible.server.access import OidcSettings
from crucible.server.doorway import doorway
from crucible.store.names import FILE_NAME

__all__ = ["sqlite_template"]
pytestmark = pytest.mark.usefixtures("run")

BEGIN = "/api/v1/auth/oidc/oidc/begin"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MEMORY_KIB", 8 * passwords.LANES)
    monkeypatch.setattr(passwords, "PASSES", 1)


@pytest.fixture
def elsewhere() -> Iterator[Provider]:
    with provider() as found:
        yield found


@pytest.fixture
def joined(
    run: Run, tmp_path: Path, elsewhere: Provider, sqlite_template: Path
) -> Iterator[Server]:
    """Doors that trust the provider."""
    settings = OidcSettings(
        issuer=elsewhere.issuer, client_id=CLIENT, client_secret=SECRET, label="Work"
    )
    (tmp_path / "home").mkdir(mode=0o700)
    shutil.copy(sqlite_template, tmp_path / "home" / FILE_NAME)
    context = serving(tmp_path / "home", has_accounts=True, is_signup_open=True, oidc=settings)
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


async def _there(page: Browser) -> str:
    """Begins, lets the provider agree, and gives the address that leads back."""
    answer = await page.client.get(BEGIN)
    assert answer.status_code == 303, answer.text
    async with httpx.AsyncClient(timeout=120) as client:
        there = await client.get(answer.headers["location"])
    return there.headers["location"]


async def _come_back(page: Browser, address: str) -> httpx.Response:
    """As a browser does: from another site, by navigating."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    page.client.headers.pop("Origin", None)
    return await page.client.get(address, headers=headers)


async def test_who_signs_in_elsewhere_is_a_user_here_and_the_same_the_next_time(
    joined: Server, elsewhere: Provider
) -> None:
    users = []
    for _ in range(2):
        async with browser(joined.url) as page:
            assert (await page.auth())["oidc"] == [{"id": "oidc", "label": "Work"}]
            answer = await _come_back(page, await _there(page))
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            users.append((await page.auth())["user"])
            assert (await page.ask("GET", "/sandboxes")).status_code == 200
    assert users[0] == users[1]
    assert (users[0]["name"], users[0]["role"]) == ("grace-hopper", "user")
    elsewhere.subject = "subject-2"
    async with browser(joined.url) as page:
        await _come_back(page, await _there(page))
        other = (await page.auth())["user"]
        # The same name there is another person here.
        assert other["id"] != users[0]["id"]
        assert other["name"].startswith("grace-hopper-")


@pytest.mark.parametrize(
    "lies",
    [
        {"claims": {"nonce": "another"}},
        {"claims": {"nonce": None}},
        {"claims": {"aud": "another-client"}},
        {"claims": {"aud": [CLIENT, "another"], "azp": "another"}},
        {"claims": {"iss": "https://evil.example"}},
        {"claims": {"exp": 1_000_000_000}},
        {"claims": {"exp": None}},
        {"claims": {"sub": None}},
        {"claims": {"sub": 7}},
        {"claims": {"sub": ""}},
        {"alg": "none"},
        {"alg": "HS256"},
        {"key": "another"},
        {"payload": "changed"},
        {"iss": "https://evil.example"},
        {"error": True},
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"padding": oidc.LARGEST_ANSWER},
    ],
    ids=str,
)
async def test_a_provider_that_lies_signs_nobody_in(
    joined: Server, elsewhere: Provider, lies: dict[str, Any]
) -> None:
    elsewhere.lies = lies
    async with browser(joined.url) as page:
        begun = await page.client.get(BEGIN)
        if not begun.headers["location"].startswith(elsewhere.issuer):
            assert begun.headers["location"] == "/sign-in?problem=identity-refused"
            return
        async with httpx.AsyncClient(timeout=120) as client:
            there = await client.get(begun.headers["location"])
        answer = await _come_back(page, there.headers["location"])
        assert answer.headers["location"] == "/sign-in?problem=identity-refused"
        assert page.cookie == ""
        assert not (await page.auth())["signed_in"]
    assert await (await joined.domain.people.get()).logins.all() == []


async def test_what_was_used_once_is_not_used_again(joined: Server) -> None:
    async with browser(joined.url) as page:
        address = await _there(page)
        mark = page.client.cookies.get("crucible_elsewhere") or ""
        assert (await _come_back(page, address)).headers["location"] == "/"
        page.client.cookies.clear()
        page.client.cookies.set("crucible_elsewhere", mark)
        answer = await _come_back(page, address)
        assert answer.headers["location"] == "/sign-in?problem=identity-refused"


async def test_what_was_begun_in_one_browser_does_not_end_in_another(joined: Server) -> None:
    """Or somebody could sign others in as themselves, and read what they do."""
    async with browser(joined.url) as attacker, browser(joined.url) as page:
        address = await _there(attacker)
        await _there(page)
        answer = await _come_back(page, address)
        assert answer.headers["location"] == "/sign-in?problem=identity-refused"
        assert page.cookie == ""


async def test_what_takes_too_long_is_over(joined: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "UNDER_WAY_S", -1.0)
    async with browser(joined.url) as page:
        address = await _there(page)
        monkeypatch.setattr(oidc, "UNDER_WAY_S", 600.0)
        answer = await _come_back(page, address)
        assert answer.headers["location"] == "/sign-in?problem=identity-refused"


async def test_no_address_of_a_request_is_where_a_browser_is_sent(joined: Server) -> None:
    async with browser(joined.url) as page:
        begun = await page.client.get(f"{BEGIN}?return=https://evil.example&next=//evil.example")
        wanted = parse_qs(urlsplit(begun.headers["location"]).query)["redirect_uri"]
        assert wanted == [f"{joined.url}/api/v1/auth/oidc/oidc/back"]
        async with httpx.AsyncClient(timeout=120) as client:
            there = await client.get(begun.headers["location"])
        address = f"{there.headers['location']}&return=https://evil.example&next=//evil.example"
        assert (await _come_back(page, address)).headers["location"] == "/"
        for query in ("", "?state=x&code=y", "?error=%0d%0aX:y&state=//evil.example"):
            path = f"/api/v1/auth/oidc/oidc/back{query}"
            assert (await page.client.get(path)).headers["location"].startswith("/sign-in?problem=")
        assert (await page.client.get(BEGIN, headers={"Host": "evil.example"})).status_code == 403


async def test_a_name_elsewhere_makes_nobody_somebody_else_here(
    joined: Server, elsewhere: Provider
) -> None:
    logins = (await joined.domain.people.get()).logins
    ada = await logins.add_first("ada", PASSWORD)
    elsewhere.name = "ada"
    async with browser(joined.url) as page:
        await _come_back(page, await _there(page))
        told = (await page.auth())["user"]
        assert told["id"] != ada.id
        assert (told["name"] != "ada", told["role"]) == (True, "user")


async def test_who_is_disabled_does_not_come_in_from_elsewhere(joined: Server) -> None:
    from crucible.accounts.logins import Changes

    async with browser(joined.url) as page:
        await _come_back(page, await _there(page))
        user = (await page.auth())["user"]["id"]
        logins = (await joined.domain.people.get()).logins
        await logins.change(user, Changes(is_disabled=True))
        answer = await _come_back(page, await _there(page))
        assert answer.headers["location"] == "/sign-in?problem=identity-refused"
        assert not (await page.auth())["signed_in"]


async def test_new_keys_of_the_provider_are_learned(
    joined: Server, elsewhere: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from joserfc.jwk import ECKey

    monkeypatch.setattr(oidc, "_KEYS_AGAIN_S", 0.0)
    async with browser(joined.url) as page:
        await _come_back(page, await _there(page))
        elsewhere.key = ECKey.generate_key("P-256", {"kid": "one"})
        assert (await _come_back(page, await _there(page))).headers["location"] == "/"


def test_settings_name_an_issuer_with_tls_and_both_of_what_is_needed() -> None:
    def settings(**given: str) -> OidcSettings | None:
        values = {f"CRUCIBLE_OIDC_{name}": value for name, value in given.items()}
        return doorway({}, has_accounts=True, environment=values).oidc

    found = settings(ISSUER="https://id.example", CLIENT_ID="me", CLIENT_SECRET="hidden")
    assert found is not None
    assert "hidden" not in repr(found)
    assert settings() is None
    for wrong in (
        {"ISSUER": "https://id.example"},
        {"CLIENT_ID": "me"},
        {"ISSUER": "http://id.example", "CLIENT_ID": "me"},
        {"ISSUER": "ftp://id.example", "CLIENT_ID": "me"},
        {"ISSUER": "https://user@id.example", "CLIENT_ID": "me"},
        {"ISSUER": "https://[", "CLIENT_ID": "me"},
        {"ISSUER": "https://id.example?x=1", "CLIENT_ID": "me"},
    ):
        with pytest.raises(BadSetting):
            settings(**wrong)
