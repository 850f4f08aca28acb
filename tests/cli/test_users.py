"""`crucible user` and `crucible link`, at one server for all: each verb as a shell has it, and what comes of it."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.database import sqlite_template
from tests.server.browsers import PASSWORD, browser
from tests.server.conftest import Server, serving

from crucible.accounts import passwords
from crucible.cli.main import main
from crucible.store.names import FILE_NAME

__all__ = ["sqlite_template"]


@pytest.fixture(scope="module")
def server(
    run: Run, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("people") / "home"
    home.mkdir(mode=0o700)
    shutil.copy(sqlite_template, home / FILE_NAME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "MEMORY_KIB", 8 * passwords.LANES)
        patch.setattr(passwords, "PASSES", 1)
        context = serving(home, has_accounts=True)
        yield run(context.__aenter__())
        run(context.__aexit__(None, None, None))


class Shell:
    def __init__(
        self, server: Server, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._patch = patch
        self._capsys = capsys
        patch.setenv("CRUCIBLE_HOME", str(server.home))
        patch.delenv("CRUCIBLE_DATABASE", raising=False)

    async def run(self, *words: str, input: str = "") -> tuple[int, str, str]:
        self._patch.setattr(sys, "stdin", io.StringIO(input))
        # In a thread: the server is in the loop of the test.
        status = await asyncio.to_thread(main, list(words))
        out, errors = self._capsys.readouterr()
        return status, out, errors


@pytest.fixture
def shell(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(server, monkeypatch, capsys)


async def _can_sign_in(server: Server, name: str, password: str) -> bool:
    async with browser(server.url) as page:
        return (await page.sign("sign-in", name=name, password=password)).is_success


async def test_a_user_is_added_listed_changed_and_removed(server: Server, shell: Shell) -> None:
    status, out, errors = await shell.run("user", "add", "root-of-all", "--role", "admin")
    assert status == 0
    assert "shown once" in errors
    assert await _can_sign_in(server, "root-of-all", out.strip())
    given = await shell.run(
        "user", "add", "Ada", "--plan", "free", "--password-stdin", "--json", input=f"{PASSWORD}\n"
    )
    told = json.loads(given[1])
    assert (told["name"], told["role"], told["plan"], told["password"]) == (
        "ada", "user", "free", None,
    )  # fmt: skip
    assert await _can_sign_in(server, "ada", PASSWORD)
    assert (await shell.run("user", "change", "ada", "--role", "admin", "--plan", "dev"))[0] == 0
    found = json.loads((await shell.run("user", "list", "--json"))[1])
    assert [(one["role"], one["plan"]) for one in found if one["name"] == "ada"] == [
        ("admin", "dev")
    ]
    assert "ada" in (await shell.run("user", "list"))[1]
    assert (await shell.run("user", "remove", "ada"))[0] == 0
    assert not await _can_sign_in(server, "ada", PASSWORD)


async def test_a_disabled_user_is_let_in_again_when_enabled(server: Server, shell: Shell) -> None:
    await shell.run("user", "add", "bob", "--password-stdin", input=f"{PASSWORD}\n")
    async with browser(server.url) as page:
        assert (await page.sign("sign-in", name="bob", password=PASSWORD)).is_success
        assert (await shell.run("user", "disable", "bob"))[0] == 0
        assert (await page.ask("GET", "/sandboxes")).status_code == 401
    assert not await _can_sign_in(server, "bob", PASSWORD)
    assert "disabled" in (await shell.run("user", "list"))[1]
    assert (await shell.run("user", "enable", "bob"))[0] == 0
    assert await _can_sign_in(server, "bob", PASSWORD)


async def test_another_password_signs_a_user_out(server: Server, shell: Shell) -> None:
    await shell.run("user", "add", "carl", "--password-stdin", input=f"{PASSWORD}\n")
    async with browser(server.url) as page:
        assert (await page.sign("sign-in", name="carl", password=PASSWORD)).is_success
        made = (await shell.run("user", "password", "carl"))[1].strip()
        assert (await page.ask("GET", "/sandboxes")).status_code == 401
    assert not await _can_sign_in(server, "carl", PASSWORD)
    assert await _can_sign_in(server, "carl", made)
    own = f"{PASSWORD} staple"
    status, out, _ = await shell.run("user", "password", "carl", "--password-stdin", input=own)
    assert (status, out) == (0, "")
    assert await _can_sign_in(server, "carl", own)


@pytest.mark.parametrize(
    "words, input, code",
    [
        (["remove", "nobody"], "", "nobody"),
        (["disable", "nobody"], "", "nobody"),
        (["password", "nobody"], "", "nobody"),
        (["add", "no name"], "", "no name"),
        (["add", "dora", "--password-stdin"], "short\n", "password"),
        (["add", "dora", "--plan", "none-such"], "", "none-such"),
        (["add", "dora", "--role", "king"], "", "king"),
        (["change", "dora"], "", "Nothing is to be changed"),
    ],
    ids=str,
)
async def test_what_cannot_be_is_refused_and_said(
    shell: Shell, words: list[str], input: str, code: str
) -> None:
    status, out, errors = await shell.run("user", *words, input=input)
    assert status != 0
    assert out == ""
    assert code in errors


async def test_a_link_leads_to_the_server_that_runs(server: Server, shell: Shell) -> None:
    await shell.run("user", "add", "erin", "--password-stdin", input=f"{PASSWORD}\n")
    status, out, _ = await shell.run("link")
    port = server.url.rpartition(":")[2]
    assert (status, out.strip()) == (0, f"http://localhost:{port}/sign-in")
    told = json.loads((await shell.run("link", "--json"))[1])
    assert told["url"] == out.strip()
    assert told["lifetime_s"] > 0


async def test_without_a_server_there_is_no_link(
    run: Run, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path))
    status, out, errors = await shell.run("link")
    assert status != 0
    assert out == ""
    assert "crucible serve" in errors
