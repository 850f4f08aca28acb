"""What a person does with conversations, by mouse and by keys. The model only talks, so no machine is started."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.browser.sites import (
    Site,
    browsing,
    check_accessible,
    enter,
    is_over,
    keep,
    say,
    served,
    watched,
)

from crucible.agent.events import Event
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.messages import AssistantMessage, Message, Text, UserMessage
from crucible.agent.options import SessionOptions
from crucible.agent.session import new_record
from crucible.conversations.conversations import Conversations
from crucible.store.database import Database
from crucible.store.names import FILE_NAME

SLOW = " ".join(f"n{n}" for n in range(300))
SCRIPT = {
    "answers": [
        {"when": "(?i)tell a tale", "text": "Once there was a *small* machine."},
        {"when": "(?i)tell a joke", "text": "A guest walked out of a sandbox. It did not."},
        {"when": "(?i)count slowly", "text": SLOW, "piece": 8, "delay_s": 0.02},
        {"when": "(?i)go on for ever", "text": SLOW * 20, "piece": 4, "delay_s": 0.1},
    ]
}
# As one does who holds the key that leads upwards.
SCROLLED_TO_FIRST = """() => {
  document.querySelector('[role=log]').parentElement.scrollTop = 0;
  return document.querySelector('article[aria-label="Turn 1"]') !== null;
}"""
LONG = "ses-long"
LONG_TURNS = 300
# In the browser, as a person's file comes there: by a drop or from the clipboard.
GIVE = """(form, [how, name, size]) => {
  const given = new DataTransfer();
  given.items.add(new File([new Uint8Array(size).fill(120)], name, {type: 'text/plain'}));
  const words = {bubbles: true, cancelable: true};
  form.dispatchEvent(how === 'drop'
    ? new DragEvent('drop', {...words, dataTransfer: given})
    : new ClipboardEvent('paste', {...words, clipboardData: given}));
}"""
# The page that is shown knows nothing of it.
END_SIGN_IN = """async () => {
  const {csrf} = await (await fetch('/api/v1/auth')).json();
  const {items} = await (await fetch('/api/v1/auth/browsers')).json();
  const {id} = items.find((one) => one.is_this);
  const init = {method: 'DELETE', headers: {'X-Crucible-CSRF': csrf}};
  return (await fetch('/api/v1/auth/browsers/' + id, init)).status;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home: Path = tmp_path_factory.mktemp("chatting")
    # Playwright has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(asyncio.run, write_long(home)).result()
    with served(home, SCRIPT, CRUCIBLE_UPLOAD_MIB="1", CRUCIBLE_TURNS_PER_MINUTE="0") as found:
        yield found
    assert not found.faults, "\n".join(found.faults)


async def write_long(home: Path) -> None:
    """A conversation that went on for long, before the server began."""
    database = Database(f"sqlite:///{home / FILE_NAME}")
    events: list[Event] = []
    messages: list[Message] = []
    for turn in range(1, LONG_TURNS + 1):
        began: dict[str, Any] = {"intent": "chat", "prompt": f"prompt {turn}", "resumed": False}
        told = {"text": f"This is answer {turn}.\n\n- one\n- two\n"}
        ended: dict[str, Any] = {"end": "done", "text": told["text"], "error": {}}
        for kind, data in (("turn-began", began), ("text", told), ("turn-ended", ended)):
            number = len(events) + 1
            events.append(Event(number=number, turn=turn, kind=kind, at=1.0, data=data))  # type: ignore[arg-type]
        messages.append(UserMessage(text=f"prompt {turn}", turn=turn))
        messages.append(AssistantMessage(parts=(Text(text=told["text"]),)))
    record = new_record(LONG, SessionOptions())
    await SqlSessions(database).append(record, first=0, messages=messages, events=events)
    known = Conversations(database, uploads=home / "uploads")
    await known.create(LONG, "local", title="A long one")
    await asyncio.to_thread(database.close)


@pytest.fixture(scope="module")
def signed_in(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    with browsing(browser, site, permissions=["clipboard-read", "clipboard-write"]) as first:
        enter(first, site)
        yield first.context


@pytest.fixture
def page(signed_in: BrowserContext, site: Site, request: pytest.FixtureRequest) -> Iterator[Page]:
    found = watched(signed_in, site)
    found.goto(site.url)
    found.get_by_role("textbox", name="Message").wait_for()
    yield found
    keep(found, f"end-of-{request.node.name}")
    found.close()


def test_a_turn_is_written_anew_tried_again_branched_and_copied(page: Page) -> None:
    turns = page.get_by_role("article")
    say(page, "tell a tale")
    expect(turns).to_contain_text("Once there was a small machine.")
    is_over(page)
    page.get_by_role("button", name="Edit the prompt").click()
    written = page.get_by_role("textbox", name="Your prompt, changed")
    expect(written).to_have_value("tell a tale")
    written.fill("tell a joke")
    keep(page, "chat-edit")
    check_accessible(page, "edit")
    page.get_by_role("article").get_by_role("button", name="Send").click()
    expect(turns).to_contain_text("It did not.")
    expect(page.get_by_text("Once there was")).to_have_count(0)
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("article", name="Turn 3").wait_for()
    expect(turns).to_have_count(1)
    expect(turns).to_contain_text("It did not.")
    is_over(page)
    page.get_by_role("button", name="Copy the answer").click()
    page.wait_for_function(
        "async (words) => await navigator.clipboard.readText() === words",
        arg="A guest walked out of a sandbox. It did not.",
    )
    say(page, "tell a tale")
    expect(turns).to_have_count(2)
    is_over(page)
    whole = page.url
    turns.first.get_by_role("button", name="Branch from here").click()
    expect(page).not_to_have_url(whole)
    expect(turns).to_have_count(1)
    expect(turns).to_contain_text("It did not.")
    # What is as the server has it is as the page showed it.
    page.goto(whole)
    expect(turns).to_have_count(2)
    expect(turns.last).to_contain_text("Once there was a small machine.")


def test_a_conversation_is_named_pinned_found_taken_along_thrown_away_and_had_back(
    page: Page,
) -> None:
    rows = page.get_by_role("region", name="Conversations")
    say(page, "tell a tale of xylophones")
    page.get_by_text("Once there was a").first.wait_for()
    is_over(page)
    choose(page, "xylophones", "Rename")
    page.get_by_role("textbox", name="Title").fill("Music")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", name="Music")).to_be_visible()
    choose(page, "Music", "Pin")
    expect(rows.get_by_role("heading", name="Pinned")).to_be_visible()
    expect(rows.get_by_role("list").first).to_contain_text("Music")
    search = rows.get_by_role("searchbox", name="Search conversations")
    search.fill("xylophones")
    expect(rows.get_by_role("listitem")).to_have_count(1)
    keep(page, "chat-search")
    search.fill("nobody said this")
    rows.get_by_text("Nothing was said that fits").wait_for()
    search.fill("")
    with page.expect_download() as downloading:
        choose(page, "Music", "Export as Markdown")
    text = downloading.value.path().read_text()
    assert downloading.value.suggested_filename.endswith(".md")
    assert "tell a tale of xylophones" in text
    assert "Once there was a *small* machine." in text
    with page.expect_download() as downloading:
        choose(page, "Music", "Export as JSON")
    assert json.loads(downloading.value.path().read_text())["title"] == "Music"
    choose(page, "Music", "Delete")
    expect(rows.get_by_role("link", name="Music")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name="What shall be done?").wait_for()
    rows.get_by_role("link", name="Music").click()
    page.get_by_role("article").get_by_text("Once there was a").wait_for()


def choose(page: Page, title: str, what: str) -> None:
    row = page.get_by_role("region", name="Conversations").get_by_role("listitem")
    row.filter(has_text=title).get_by_role("button", name=re.compile("^More for")).click()
    page.get_by_role("menuitem", name=what, exact=True).click()


def test_files_come_by_drop_and_paste_and_too_large_ones_are_refused(page: Page) -> None:
    form = page.get_by_role("form", name="Message")
    files = page.get_by_role("list", name="Files to attach").get_by_role("listitem")
    for how, name in (("drop", "dropped.txt"), ("paste", "pasted.txt")):
        give(page, how, name, 2048)
        expect(files.filter(has_text=name)).to_contain_text("2.0 KB")
    expect(form.get_by_role("progressbar")).to_have_count(0)
    page.get_by_role("textbox", name="Message").fill("what is in them?")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    give(page, "drop", "large.bin", (1 << 20) + 1)
    expect(files.filter(has_text="large.bin")).to_contain_text("A file may have 1 MiB at most")
    keep(page, "chat-attached")
    check_accessible(page, "attached")
    page.get_by_role("button", name="Take large.bin away").click()
    expect(files).to_have_count(2)
    page.get_by_role("textbox", name="Message").fill("")


def give(page: Page, how: str, name: str, size: int) -> None:
    page.get_by_role("textbox", name="Message").evaluate(GIVE, [how, name, size])


def test_a_connection_that_drops_is_taken_up_again_and_nothing_is_missed_or_told_twice(
    page: Page,
) -> None:
    say(page, "count slowly")
    page.get_by_text(re.compile(r"\bn20\b")).first.wait_for()
    drop_connection(page)
    expect(page.get_by_text(SLOW, exact=True)).to_have_count(1)
    is_over(page)
    # With nothing more to tell, it is known to be there again all the same.
    drop_connection(page)


def drop_connection(page: Page) -> None:
    lost = page.get_by_text("The connection dropped.")
    try:
        page.context.set_offline(True)
        lost.wait_for()
        keep(page, "chat-dropped")
    finally:
        page.context.set_offline(False)
    expect(lost).to_have_count(0)


def test_all_goes_by_keys_alone(page: Page) -> None:
    words = page.get_by_role("textbox", name="Message")
    menu = page.get_by_role("combobox", name="Search pages and conversations")
    page.keyboard.press("Control+k")
    expect(menu).to_be_focused()
    page.keyboard.type("runs")
    expect(page.get_by_role("option", selected=True)).to_contain_text("Runs")
    keep(page, "command-menu")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    page.keyboard.press("Control+k")
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    expect(words).to_be_focused()
    page.keyboard.press("Tab")
    expect(words).not_to_be_focused()
    page.keyboard.press("/")
    expect(words).to_be_focused()
    page.keyboard.type("go on for ever")
    page.keyboard.press("Enter")
    page.get_by_text(re.compile(r"\bn2\b")).first.wait_for()
    # Wherever one is; but what closes a menu closes that alone.
    page.keyboard.press("Tab")
    page.keyboard.press("Control+k")
    expect(menu).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("article").get_by_text("Stopped").wait_for()
    is_over(page)
    page.keyboard.press("/")
    expect(words).to_be_focused()


def test_a_long_conversation_opens_at_its_end_and_is_read_upwards(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/c/{LONG}")
    expect(page.get_by_text(f"This is answer {LONG_TURNS}.")).to_be_in_viewport()
    turns = page.get_by_role("article")
    expect(turns).to_have_count(30)
    for shown in (60, 120):
        turns.first.scroll_into_view_if_needed()
        page.mouse.move(640, 300)
        page.mouse.wheel(0, -400)
        expect(turns.nth(shown - 1)).to_be_attached()
    page.wait_for_function(SCROLLED_TO_FIRST)
    expect(page.get_by_text("This is answer 1.", exact=True)).to_be_in_viewport()
    expect(turns).to_have_count(LONG_TURNS)
    expect(page.get_by_role("button", name="Show earlier turns")).to_have_count(0)
    oldest = page.get_by_text("This is answer 271.")
    oldest.scroll_into_view_if_needed()
    expect(oldest).to_be_in_viewport()
    page.get_by_role("button", name="To the newest").click()
    expect(page.get_by_text(f"This is answer {LONG_TURNS}.")).to_be_in_viewport()


def test_who_signs_out_is_out_and_so_is_whose_sign_in_was_ended(
    browser: Browser, site: Site
) -> None:
    outside = "Open the link from your terminal"
    with browsing(browser, site) as page:
        enter(page, site)
        page.get_by_role("textbox", name="Message").fill("what I have not sent")
        assert page.evaluate(END_SIGN_IN) == 204
        page.get_by_role("link", name="Runs").click()
        page.get_by_role("heading", name=outside).wait_for()
        keep(page, "signed-out")
        check_accessible(page, "signed out")
        # Signed in again in another tab, one is back where one wanted to go.
        other = watched(page.context, site)
        enter(other, site)
        page.get_by_role("button", name="I have opened it").click()
        page.get_by_role("heading", name="Runs", exact=True).wait_for()
        page.get_by_role("link", name="New chat").click()
        expect(page.get_by_role("textbox", name="Message")).to_have_value("what I have not sent")
        page.get_by_role("button", name="Account and appearance").click()
        page.get_by_role("menuitem", name="Sign out").click()
        page.get_by_role("heading", name=outside).wait_for()
        other.get_by_role("link", name="Memory").click()
        other.get_by_role("heading", name=outside).wait_for()
