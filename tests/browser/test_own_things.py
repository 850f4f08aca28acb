"""What a person keeps: memory, runs, settings. In a real browser, without any machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect
from tests.browser.sites import Site, browsing, enter, is_over, keep, say, served

SCRIPT = {"answers": [{"when": "(?i)hello", "text": "Good day to you."}]}
KEY = "sk-ant-this-key-is-told-to-nobody-4711"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home: Path = tmp_path_factory.mktemp("own")
    with served(home, SCRIPT) as found:
        yield found
    assert not found.faults, "\n".join(found.faults)


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    with browsing(browser, site) as found:
        enter(found, site)
        yield found


def test_what_is_remembered_is_replaced_corrected_pinned_and_forgotten(page: Page) -> None:
    page.get_by_role("link", name="Memory").click()
    known = page.get_by_role("list", name="What is known")
    for text in ("I live in Lisbon", "I prefer short answers", "I live in Porto"):
        page.get_by_role("textbox", name="Something to remember").fill(text)
        page.get_by_role("button", name="Remember", exact=True).click()
        expect(page.get_by_role("textbox", name="Something to remember")).to_have_value("")
    expect(known).to_contain_text("Lives in Porto")
    expect(known).not_to_contain_text("Lisbon")
    preference = known.get_by_role("listitem").filter(has_text="short answers")
    preference.get_by_role("button", name="Correct").click()
    page.get_by_role("textbox", name="What is known").fill("Prefers long answers")
    page.get_by_role("button", name="Save").click()
    corrected = known.get_by_role("listitem").filter(has_text="long answers")
    corrected.get_by_role("button", name=re.compile("^Pin")).click()
    expect(corrected).to_contain_text("Pinned")
    keep(page, "memory")
    corrected.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(known).not_to_contain_text("long answers")
    page.reload()
    expect(known).to_contain_text("Lives in Porto")
    expect(known).not_to_contain_text("long answers")
    page.get_by_role("switch", name="Remember between conversations").click()
    page.reload()
    expect(page.get_by_role("switch", name="Remember between conversations")).not_to_be_checked()


def test_a_run_is_seen_exported_and_verified_and_a_changed_one_is_not(page: Page) -> None:
    say(page, "hello")
    page.get_by_text("Good day to you.").wait_for()
    is_over(page)
    name = page.url.rsplit("/", 1)[-1]
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("table", name="Runs", exact=True).get_by_text(name).click()
    page.get_by_role("button", name="Verify the record").click()
    page.get_by_text(re.compile("^Whole: all")).wait_for()
    page.get_by_role("region", name="Steps").get_by_role("button").filter(
        has_text="model-call"
    ).first.click()
    expect(page.get_by_role("region", name="Steps")).to_contain_text("Good day to you.")
    keep(page, "run")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Signed manifest").click()
    manifest = downloading.value.path().read_bytes()
    page.get_by_role("link", name="All runs").click()
    altered = json.loads(manifest)
    altered["payload"] = altered["payload"][:-8] + "AAAAAAA="
    for data, words in ((manifest, "Whole: all"), (json.dumps(altered).encode(), "")):
        page.get_by_label("Manifest to verify").set_input_files(
            FilePayload(name="run.json", mimeType="application/json", buffer=data)
        )
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("run.json")
        expect(dialog).not_to_contain_text("Checking")
        assert ("Whole: all" in (dialog.text_content() or "")) == bool(words)
        dialog.get_by_role("button", name="Close").click()


def test_a_key_goes_in_and_never_comes_out(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/settings/models")
    row = page.get_by_role("listitem").filter(has_text="anthropic")
    expect(row).to_contain_text("no key")
    row.get_by_role("button", name="Add a key").click()
    page.get_by_label("Key for anthropic").fill(KEY)
    row.get_by_role("button", name="Keep").click()
    expect(row).to_contain_text("your key")
    page.reload()
    expect(row).to_contain_text("your key")
    assert KEY not in page.content()
    answer = page.context.request.get(f"{site.url}/api/v1/settings")
    assert answer.ok
    assert KEY not in answer.text()
    row.get_by_role("button", name="Remove the key").click()
    expect(row).to_contain_text("no key")


def test_settings_are_kept(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/settings/policy")
    page.get_by_label("Deny", exact=True).fill("bash(rm -rf *)\n\nbash(rm -rf *)")
    page.get_by_role("button", name="Keep Deny").click()
    page.get_by_text("Kept").first.wait_for()
    page.goto(f"{site.url}/settings/egress")
    page.get_by_label("Hosts that are allowed").fill("not a host")
    page.get_by_role("button", name="Keep Hosts").click()
    page.get_by_role("alert").first.wait_for()
    page.get_by_label("Hosts that are allowed").fill("example.org")
    page.get_by_role("button", name="Keep Hosts").click()
    page.get_by_text("Kept").first.wait_for()
    page.goto(f"{site.url}/settings/mcp")
    page.get_by_label("Name").fill("clock")
    page.get_by_label("Command, one word a line").fill("uvx\nmcp-server-time")
    page.get_by_role("button", name="Add").click()
    page.get_by_role("list", name="MCP servers").get_by_text("uvx mcp-server-time").wait_for()
    page.get_by_role("button", name="Remove clock").click()
    page.get_by_text("You have added none").wait_for()
    page.goto(f"{site.url}/settings/appearance")
    page.get_by_role("radio", name="Dark").check()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_text("Kept").first.wait_for()
    told = page.context.request.get(f"{site.url}/api/v1/settings").json()
    assert told["policy"]["deny"] == ["bash(rm -rf *)"]
    assert told["egress"]["hosts"] == ["example.org"]
    assert told["appearance"]["theme"] == "dark"
