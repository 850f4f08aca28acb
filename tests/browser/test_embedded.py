"""A first visit: no key, no setting; the model that comes along, and a real machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.sites import browsing, check_accessible, enter, is_over, keep, say, served
from tests.conftest import own_home

pytestmark = pytest.mark.vm


def test_without_a_key_the_embedded_model_works_it_out_in_a_sandbox_and_says_what_it_is(
    browser: Browser, prepared_home: Path
) -> None:
    with own_home(prepared_home) as home, served(home, None) as site:
        with browsing(browser, site) as page:
            enter(page, site)
            about = page.get_by_role("complementary", name="About this model")
            expect(about).to_contain_text("a very small model that runs on this machine")
            keep(page, "first-visit")
            check_accessible(page, "first visit")
            say(page, "what is 17 * 23")
            turn = page.get_by_role("article", name="Turn 1")
            turn.wait_for()
            is_over(page)
            # What came of it is the model's; that a program of its own ran in a machine is ours.
            ran = turn.get_by_role("button", name=re.compile(r"^python .*\d m?s"))
            expect(ran.first).to_be_visible()
            expect(page.get_by_role("button", name="Changes")).to_be_visible()
            keep(page, "first-answer")
            about.get_by_role("link", name="Add a key").click()
            page.get_by_role("heading", name=re.compile("Models")).first.wait_for()
            assert page.url.endswith("/settings/models")
            keep(page, "first-key")
        for name in re.findall(r"^\S*agent-\S+", site.crucible("list"), re.MULTILINE):
            site.crucible("rm", "--force", name)
    assert not site.faults, "\n".join(site.faults)
