"""Who signs in, and who tries to without being who they say."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.conftest import Run
from tests.database import sqlite_template
from tests.server.browsers import PASSWORD, Browser, browser
from tests.server.conftest import Server, serving

from crucible.accounts import passwords
from crucible.accounts.web_sessions import IDLE_S
from crucible.errors import BadSetting
from crucible.server import attempts, links
from crucible.server.listening import Address
from crucible.store.names import FILE_NAME

__all__ = ["sqlite_template"]

pytestmark = pytest.mark.usefixtures("run")


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many passes a password takes is for one test to know."""
    if request.function is not test_what_is_kept_of_a_password_is_costly_to_guess:
        monkeypatch.setattr(passwords, "MEMORY_KIB", 8 * passwords.LANES)
        monkeypatch.setattr(passwords, "PASSES", 1)


@pytest.fixture
def peopled(run: Run, tmp_path: Path, sqlite_template: Path) -> Iterator[Server]:
    """Doors for many, to a home with nothing in it."""
    (tmp_path / "home").mkdir(mode=0o700)
    shutil.copy(sqlite_template, tmp_path / "home" / FILE_NAME)
    context = serving(tmp_path / "home", has_accounts=True, is_signup_open=True)
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


async def _signed_up(page: Browser, name: str = "ada") -> dict[str, object]:
    answer = await page.sign("sign-up", name=name, password=PASSWORD)
    assert answer.status_code == 201, answer.text
    found: dict[str, object] = answer.json()
    return found


async def _code(server: Server) -> str:
    async with server.local() as client:
        url: str = (await client.post("/api/v1/auth/links")).json()["url"]
    return url.partition("#")[2]


async def test_a_printed_link_signs_one_browser_in_once(bare: Server) -> None:
    async with bare.local() as owner, browser(bare.url) as page, browser(bare.url) as other:
        found = (await owner.post("/api/v1/auth/links")).json()
        assert found["url"].startswith(f"http://localhost:{bare.url.rpartition(':')[2]}/enter#")
        code = found["url"].partition("#")[2]
        before = await page.auth()
        assert (before["mode"], before["signed_in"], before["csrf"]) == ("local", False, None)
        assert (await page.sign("link", code=code)).json()["user"]["id"] == "local"
        told = await page.auth()
        assert told["signed_in"]
        assert told["user"] == {"id": "local", "name": "local", "role": "admin", "plan": ""}
        assert (await page.ask("GET", "/sandboxes")).status_code == 200
        answer = await other.sign("link", code=code)
        assert (answer.status_code, answer.json()["code"]) == (403, "code-refused")
        assert (await other.ask("GET", "/sandboxes")).status_code == 401


async def test_a_link_is_too_old_after_ten_minutes(
    bare: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "LIFETIME_S", -1.0)
    async with browser(bare.url) as page:
        assert (await page.sign("link", code=await _code(bare))).json()["code"] == "code-refused"


async def test_links_are_given_over_our_own_socket_alone(bare: Server) -> None:
    async with bare.client() as client, browser(bare.url) as page:
        assert (await client.post("/api/v1/auth/links")).status_code == 403
        assert (await page.ask("POST", "/auth/links")).status_code == 403
        await page.sign("link", code=await _code(bare))
        assert (await page.ask("POST", "/auth/links")).status_code == 403


def test_of_too_many_links_the_oldest_is_forgotten() -> None:
    kept = links.Links()
    codes = [kept.give() for _ in range(links.MOST_CODES + 1)]
    with pytest.raises(Exception, match="unknown, used already or too old"):
        kept.redeem(codes[0])
    kept.redeem(codes[-1])


async def test_how_to_come_in_is_told_in_every_mode(bare: Server, tmp_path: Path) -> None:
    async with bare.local() as owner:
        told = (await owner.get("/api/v1/auth")).json()
        assert (told["mode"], told["signed_in"], told["user"]["id"]) == ("local", True, "local")
    async with serving(tmp_path / "open", needs_token=False) as server, browser(server.url) as page:
        told = await page.auth()
        assert (told["mode"], told["signed_in"], told["csrf"]) == ("open", True, None)
        assert (await page.ask("POST", "/volumes", json={"name": "v"})).status_code == 201
        assert (await page.sign("link", code="x")).status_code == 403
    async with serving(tmp_path / "many", has_accounts=True) as server, browser(server.url) as page:
        told = await page.auth()
        assert told == {
            "mode": "accounts", "signed_in": False, "user": None, "signup": True,
            "needs_code": False, "oidc": [], "csrf": None,
        }  # fmt: skip


def test_accounts_and_no_auth_do_not_go_together() -> None:
    with pytest.raises(BadSetting, match="without being known"):
        Address(needs_token=False, has_accounts=True)


async def test_the_first_to_sign_up_administers_and_the_next_does_not(peopled: Server) -> None:
    async with browser(peopled.url) as ada, browser(peopled.url) as bob:
        assert (await _signed_up(ada))["user"] == {
            **(await ada.auth())["user"], "name": "ada", "role": "admin", "plan": "",
        }  # fmt: skip
        told = (await _signed_up(bob, "bob"))["user"]
        assert isinstance(told, dict)
        assert (told["role"], told["plan"]) == ("user", "free")
        assert (await ada.ask("GET", "/users")).json()["plans"] == ["free", "dev", "pro"]
        assert [one["name"] for one in (await ada.ask("GET", "/users")).json()["items"]] == [
            "ada",
            "bob",
        ]
        assert (await bob.ask("GET", "/users")).status_code == 403


async def test_nobody_signs_up_where_that_is_closed_but_the_first(tmp_path: Path) -> None:
    async with (
        serving(tmp_path / "home", has_accounts=True) as server,
        browser(server.url) as ada,
        browser(server.url) as bob,
    ):
        await _signed_up(ada)
        assert not (await bob.auth())["signup"]
        answer = await bob.sign("sign-up", name="bob", password=PASSWORD)
        assert (answer.status_code, answer.json()["code"]) == (403, "sign-up-closed")
        made = (await ada.ask("POST", "/users", json={"name": "bob"})).json()
        assert (await bob.sign("sign-in", name="Bob", password=made["password"])).is_success


async def test_from_elsewhere_the_first_to_sign_up_needs_the_printed_code(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", has_accounts=True, host="0.0.0.0") as server:
        url = f"http://127.0.0.1:{server.url.rpartition(':')[2]}"
        async with browser(url) as page:
            assert (await page.auth())["needs_code"]
            answer = await page.sign("sign-up", name="mallory", password=PASSWORD)
            assert answer.json()["code"] == "code-refused"
            code = await _code(server)
            assert (await page.sign("sign-up", name="ada", password=PASSWORD, code=code)).is_success


@pytest.mark.parametrize(
    "headers", [{"X-Forwarded-For": "203.0.113.9"}, {"Host": "crucible.test", "Origin": ""}]
)
async def test_behind_another_server_the_first_needs_the_code_too(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with serving(
        tmp_path / "home", has_accounts=True, host_names=("crucible.test",)
    ) as server:
        sent = {name: value for name, value in headers.items() if value}
        async with httpx.AsyncClient(base_url=server.url, headers=sent, timeout=120) as client:
            fields = {"name": "mallory", "password": PASSWORD}
            answer = await client.post("/api/v1/auth/sign-up", json=fields)
            assert answer.json()["code"] == "code-refused"


async def test_a_cookie_is_for_our_pages_alone_and_a_new_one_each_time(peopled: Server) -> None:
    async with browser(peopled.url) as page:
        answer = await page.sign("sign-up", name="ada", password=PASSWORD)
        flags = answer.headers["set-cookie"].lower().split("; ")
        assert {"httponly", "samesite=lax", "path=/"} <= set(flags)
        assert "secure" not in flags
        first = page.cookie
        assert len(first) >= 43
        await page.sign("sign-in", name="ada", password=PASSWORD)
        assert page.cookie != first
        # The one before is worth nothing any more.
        page.client.cookies.set("crucible_session", first, domain="127.0.0.1")
        assert (await page.ask("GET", "/sandboxes")).status_code == 401


async def test_a_cookie_that_somebody_else_chose_is_never_taken_over(peopled: Server) -> None:
    async with browser(peopled.url) as page:
        chosen = "A" * 43
        page.client.cookies.set("crucible_session", chosen, domain="127.0.0.1")
        answer = await page.sign("sign-up", name="ada", password=PASSWORD)
        assert chosen not in answer.headers["set-cookie"]
        twice = {"Cookie": f"crucible_session={chosen}; crucible_session={page.cookie}"}
        async with httpx.AsyncClient(base_url=peopled.url, headers=twice, timeout=120) as client:
            assert (await client.get("/api/v1/sandboxes")).status_code == 401


async def test_what_is_kept_of_a_cookie_is_a_hash(peopled: Server) -> None:
    async with browser(peopled.url) as page:
        await _signed_up(page)
        for path in peopled.home.rglob("*"):
            if path.is_file() and not path.is_socket():
                data = path.read_bytes()
                assert page.cookie.encode() not in data
                assert PASSWORD.encode() not in data
        assert any(
            hashlib.sha256(page.cookie.encode()).hexdigest().encode() in path.read_bytes()
            for path in peopled.home.glob("*.db*")
        )


async def test_after_signing_out_a_copied_cookie_is_worth_nothing(peopled: Server) -> None:
    async with browser(peopled.url) as page, browser(peopled.url) as thief:
        await _signed_up(page)
        stolen, csrf = page.cookie, page.csrf
        thief.client.cookies.set("crucible_session", stolen)
        thief.csrf = csrf
        assert (await thief.ask("GET", "/sandboxes")).status_code == 200
        answer = await page.sign("sign-out")
        assert answer.json()["signed_in"] is False
        assert page.cookie == ""
        assert (await thief.ask("GET", "/sandboxes")).status_code == 401
        assert (await thief.ask("POST", "/volumes", json={"name": "v"})).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Crucible-CSRF": ""},
        {"X-Crucible-CSRF": "0" * 64},
        {"X-Crucible-CSRF": "é".encode("latin-1").decode("latin-1")},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
async def test_a_page_of_another_origin_changes_nothing(
    peopled: Server, headers: dict[str, str]
) -> None:
    async with browser(peopled.url) as page:
        await _signed_up(page)
        sent = {name: value.encode("latin-1") for name, value in headers.items()}
        answer = await page.ask("POST", "/volumes", json={"name": "v"}, headers=sent)
        assert answer.status_code == 403
        assert (await page.ask("GET", "/volumes")).json()["items"] == []
        if "X-Crucible-CSRF" not in headers:
            # Nor does it look: not even where a browser would keep the answer from it.
            assert (await page.ask("GET", "/volumes", headers=sent)).status_code == 403


async def test_another_users_proof_is_none(peopled: Server) -> None:
    async with browser(peopled.url) as ada, browser(peopled.url) as bob:
        await _signed_up(ada)
        await _signed_up(bob, "bob")
        headers = {"X-Crucible-CSRF": bob.csrf}
        answer = await ada.ask("POST", "/volumes", json={"name": "v"}, headers=headers)
        assert answer.json()["code"] == "request-forged"


async def test_a_session_ends_when_it_is_not_used(peopled: Server) -> None:
    async with browser(peopled.url) as page:
        await _signed_up(page)
        sessions = (await peopled.domain.people.get()).sessions
        now = sessions._clock()
        sessions._clock = lambda: now + IDLE_S - 10
        assert (await page.ask("GET", "/sandboxes")).status_code == 200
        # Used, it goes on for as long again.
        sessions._clock = lambda: now + 2 * IDLE_S - 30
        assert (await page.ask("GET", "/sandboxes")).status_code == 200
        sessions._clock = lambda: now + 3 * IDLE_S
        assert (await page.ask("GET", "/sandboxes")).status_code == 401


async def test_a_session_ends_after_a_month_however_much_it_is_used(peopled: Server) -> None:
    async with browser(peopled.url) as page:
        await _signed_up(page)
        sessions = (await peopled.domain.people.get()).sessions
        now = sessions._clock()
        for days in range(5, 30, 5):
            sessions._clock = lambda days=days: now + days * 86_400.0  # type: ignore[misc]
            assert (await page.ask("GET", "/sandboxes")).status_code == 200
        sessions._clock = lambda: now + 30 * 86_400.0 + 1
        assert (await page.ask("GET", "/sandboxes")).status_code == 401


async def test_a_new_password_signs_out_everywhere_else(peopled: Server) -> None:
    async with browser(peopled.url) as here, browser(peopled.url) as there:
        await _signed_up(here)
        await there.sign("sign-in", name="ada", password=PASSWORD)
        listed = (await here.ask("GET", "/auth/browsers")).json()["items"]
        assert [one["is_this"] for one in listed] == [False, True]
        wrong = {"old": "not my password", "new": "another horse battery"}
        assert (await here.ask("POST", "/auth/password", json=wrong)).status_code == 403
        right = {"old": PASSWORD, "new": "another horse battery"}
        assert (await here.ask("POST", "/auth/password", json=right)).status_code == 204
        assert (await here.ask("GET", "/sandboxes")).status_code == 200
        assert (await there.ask("GET", "/sandboxes")).status_code == 401
        assert (await there.sign("sign-in", name="ada", password=PASSWORD)).status_code == 403
        assert (await there.sign("sign-in", name="ada", password=right["new"])).is_success


async def test_another_browser_can_be_signed_out_by_its_user_alone(peopled: Server) -> None:
    async with (
        browser(peopled.url) as here,
        browser(peopled.url) as there,
        browser(peopled.url) as bob,
    ):
        await _signed_up(here)
        await there.sign("sign-in", name="ada", password=PASSWORD)
        await _signed_up(bob, "bob")
        listed = (await here.ask("GET", "/auth/browsers")).json()["items"]
        other = next(one["id"] for one in listed if not one["is_this"])
        assert (await bob.ask("DELETE", f"/auth/browsers/{other}")).status_code == 404
        assert (await here.ask("DELETE", f"/auth/browsers/{other}")).status_code == 204
        assert (await there.ask("GET", "/sandboxes")).status_code == 401


async def test_an_unknown_name_costs_as_much_as_a_known_one(peopled: Server) -> None:
    async with browser(peopled.url) as page, browser(peopled.url) as guest:
        await _signed_up(page)
        kept = (await peopled.domain.people.get()).passwords
        told = []
        for name in ("ada", "nobody", "Not A Name!", "ada\r\nX: y"):
            before = kept.work
            answer = await guest.sign("sign-in", name=name, password="wrong password")
            told.append((answer.status_code, answer.json()["message"], kept.work - before))
        assert len(set(told)) == 1
        assert told[0][0] == 403
        assert told[0][2] == 1


async def test_guessing_is_stopped_before_any_work_is_done(peopled: Server) -> None:
    now = 1000.0
    peopled.domain.attempts = attempts.Attempts(lambda: now)
    async with browser(peopled.url) as page, browser(peopled.url) as guesser:
        await _signed_up(page)
        kept = (await peopled.domain.people.get()).passwords
        for _ in range(attempts.OF_NAME):
            answer = await guesser.sign("sign-in", name="ada", password="wrong password")
            assert answer.status_code == 403
        before = kept.work
        for password in ("wrong password", PASSWORD):
            answer = await guesser.sign("sign-in", name="ADA ", password=password)
            assert (answer.status_code, answer.json()["code"]) == (429, "too-many-attempts")
            assert int(answer.headers["retry-after"]) >= 1
        assert kept.work == before
        # Other names fare no better from there, once there are too many.
        answers = [
            await guesser.sign("sign-in", name=f"user{number}", password="wrong password")
            for number in range(attempts.OF_ADDRESS)
        ]
        assert answers[-1].status_code == 429
        now += attempts.NAME_FORGIVEN_S + 1
        assert (await guesser.sign("sign-in", name="ada", password=PASSWORD)).is_success


async def test_what_is_kept_of_a_password_is_costly_to_guess() -> None:
    kept = passwords.Passwords()
    made = await kept.hash(PASSWORD)
    assert made.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert await kept.matches(PASSWORD, made)
    assert not await kept.matches(f"{PASSWORD} ", made)
    assert not await kept.matches("", made)
    assert not kept.is_outdated(made)
    kept.close()


async def test_too_many_passwords_at_once_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MOST_WAITING", -passwords.AT_ONCE)
    kept = passwords.Passwords()
    with pytest.raises(Exception, match="Too many passwords"):
        await kept.matches("a password", "")
    kept.close()


@pytest.mark.parametrize(
    "name", ["", "a" * 65, "local", "a b", "ada\r\nSet-Cookie: x=y", "-x", "ädä"]
)
async def test_a_name_is_made_of_plain_characters(peopled: Server, name: str) -> None:
    async with browser(peopled.url) as page:
        answer = await page.sign("sign-up", name=name, password=PASSWORD)
        assert answer.status_code == 422
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("password", ["short", "x" * 1025, "\ud800" * 12])
async def test_a_password_is_neither_short_nor_endless(peopled: Server, password: str) -> None:
    async with browser(peopled.url) as page:
        body = json.dumps({"name": "ada", "password": password})
        headers = {"Content-Type": "application/json"}
        answer = await page.ask("POST", "/auth/sign-up", content=body, headers=headers)
        assert answer.status_code == 422
        assert "x" * 100 not in answer.text


async def test_an_endless_body_is_not_read(peopled: Server) -> None:
    async with browser(peopled.url) as page:
        headers = {"Content-Type": "application/json"}
        answer = await page.ask("POST", "/auth/sign-in", content=b"x" * 100_000, headers=headers)
        assert answer.status_code == 413


async def test_pages_need_nobody_and_all_else_somebody(peopled: Server) -> None:
    async with browser(peopled.url) as page:
        for path in ("/", "/enter", "/sign-in", "/c/1", "/settings/users", "/assets/a.js"):
            assert (await page.client.get(path)).status_code != 401, path
            assert (await page.client.post(path)).status_code == 401, path
        for path in ("/metrics", "/api/v1/sandboxes", "/api/v1/authx", "/api/v1", "/other", "/api"):
            assert (await page.client.get(path)).status_code == 401, path


async def test_who_is_disabled_or_removed_is_out_at_once_with_their_tokens(peopled: Server) -> None:
    async with browser(peopled.url) as ada, browser(peopled.url) as bob:
        await _signed_up(ada)
        told = (await _signed_up(bob, "bob"))["user"]
        assert isinstance(told, dict)
        made = await bob.ask("POST", "/tokens", json={"name": "mine", "scope": "run"})
        headers = {"Authorization": f"Bearer {made.json()['token']}"}
        async with httpx.AsyncClient(base_url=peopled.url, headers=headers, timeout=120) as program:
            assert (await program.get("/api/v1/auth")).json()["user"]["id"] == told["id"]
            answer = await ada.ask("PATCH", f"/users/{told['id']}", json={"disabled": True})
            assert answer.json()["disabled"] is True
            assert (await program.get("/api/v1/sandboxes")).status_code == 401
        assert (await bob.ask("GET", "/sandboxes")).status_code == 401
        assert (await bob.sign("sign-in", name="bob", password=PASSWORD)).status_code == 403
        await ada.ask("PATCH", f"/users/{told['id']}", json={"disabled": False})
        assert (await bob.sign("sign-in", name="bob", password=PASSWORD)).is_success
        assert (await ada.ask("DELETE", f"/users/{told['id']}")).status_code == 204
        assert (await bob.ask("GET", "/sandboxes")).status_code == 401


async def test_somebody_is_left_who_administers(peopled: Server) -> None:
    async with browser(peopled.url) as ada:
        told = (await _signed_up(ada))["user"]
        assert isinstance(told, dict)
        for change in ({"role": "user"}, {"disabled": True}):
            answer = await ada.ask("PATCH", f"/users/{told['id']}", json=change)
            assert (answer.status_code, answer.json()["code"]) == (409, "last-administrator")
        assert (await ada.ask("DELETE", f"/users/{told['id']}")).status_code == 409
        assert (await ada.ask("GET", "/users")).is_success


async def test_a_user_gives_tokens_no_more_than_they_have(peopled: Server) -> None:
    async with browser(peopled.url) as ada, browser(peopled.url) as bob:
        await _signed_up(ada)
        await _signed_up(bob, "bob")
        wanted = {"name": "t", "scope": "admin"}
        assert (await bob.ask("POST", "/tokens", json=wanted)).status_code == 403
        made = (await bob.ask("POST", "/tokens", json={"name": "t", "scope": "run"})).json()
        assert (await ada.ask("GET", "/tokens")).json()["items"] == []
        assert (await ada.ask("DELETE", f"/tokens/{made['id']}")).status_code == 404
        headers = {"Authorization": f"Bearer {made['token']}"}
        async with httpx.AsyncClient(base_url=peopled.url, headers=headers, timeout=120) as program:
            assert (await program.post("/api/v1/tokens", json={"name": "u"})).status_code == 403
            assert (await program.get("/api/v1/users")).status_code == 403
        assert (await bob.ask("DELETE", f"/tokens/{made['id']}")).status_code == 204


async def test_a_session_of_one_mode_is_none_in_another(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server, browser(server.url) as page:
        await page.sign("link", code=await _code(server))
        cookie = page.cookie
    async with serving(tmp_path / "home", has_accounts=True) as server:
        headers = {"Cookie": f"crucible_session={cookie}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=120) as client:
            assert (await client.get("/api/v1/sandboxes")).status_code == 401
