"""Several people before one server, and every page as each sees it. No machine is started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.sites import Site, browsing, check_accessible, keep, say, served, sign_up

SCRIPT = {
    "answers": [
        {"when": "(?i)my secret is", "text": "I keep it to **myself**: $e^{i\\pi} = -1$."},
        {"when": "(?i)hello", "text": "Good day to you."},
    ]
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home: Path = tmp_path_factory.mktemp("people")
    with served(home, SCRIPT, "--accounts", CRUCIBLE_SIGNUP="open") as found:
        yield found
    assert not found.faults, "\n".join(found.faults)


def test_two_people_see_each_their_own(browser: Browser, site: Site) -> None:
    with browsing(browser, site) as ada, browsing(browser, site) as bob:
        ada.goto(site.url)
        ada.get_by_role("heading", name="Sign in").wait_for()
        keep(ada, "sign-in")
        check_accessible(ada, "sign-in")
        sign_up(ada, site, "ada")
        say(ada, "my secret is the number 4711")
        ada.get_by_text("I keep it to").wait_for()
        ada.locator(".katex").first.wait_for()
        keep(ada, "chat-of-ada")
        sign_up(bob, site, "bob")
        expect(bob.get_by_text("4711")).to_have_count(0)
        bob.goto(ada.url)
        bob.get_by_text(
            re.compile("no session|There is no|missing", re.IGNORECASE)
        ).first.wait_for()
        expect(bob.get_by_text("4711")).to_have_count(0)
        bob.goto(f"{site.url}/settings/users")
        bob.get_by_role("heading", name="Where code runs").wait_for()
        ada.goto(f"{site.url}/settings/users")
        ada.get_by_role("list", name="Users").get_by_text("bob").wait_for()
        keep(ada, "settings-users")
        # Who was sent away is out at once, with all pages that were open.
        ada.get_by_role("button", name="More for bob").click()
        ada.get_by_role("menuitem", name="Disable").click()
        ada.get_by_text("disabled").wait_for()
        bob.reload()
        bob.get_by_role("heading", name="Sign in").wait_for()


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_every_page_can_be_read_by_everybody(browser: Browser, site: Site, look: str) -> None:
    scheme = "dark" if look == "dark" else "light"
    with browsing(browser, site, color_scheme=scheme) as page:
        if look == "phone":
            page.set_viewport_size({"width": 390, "height": 844})
        sign_up(page, site, f"{look}-person")
        say(page, "hello")
        page.get_by_text("Good day to you.").wait_for()
        for where in ("", "sandboxes", "runs", "memory", "settings/models", "settings/mcp"):
            page.goto(f"{site.url}/{where}")
            page.get_by_role("heading").first.wait_for()
            page.wait_for_load_state("networkidle")
            keep(page, f"{look}-{where.replace('/', '-') or 'chat'}")
            if look != "phone":
                # Of what axe looks at, colours alone differ.
                rules = ("color-contrast",) if look == "dark" else ()
                check_accessible(page, f"{look} {where or 'chat'}", *rules)
            sideways = page.evaluate(
                "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
            assert not sideways, where
