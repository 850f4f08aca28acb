"""Files that come with a prompt: seen on their way, and taken along when it is written anew. No machine is started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect
from tests.browser.sites import (
    Site,
    browsing,
    check_accessible,
    enter,
    is_over,
    keep,
    served,
    slow_upload,
)

from crucible.agent.events import Event
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.messages import AssistantMessage, Message, Text, UserMessage
from crucible.agent.options import SessionOptions
from crucible.agent.session import new_record
from crucible.conversations.conversations import Conversations
from crucible.store.database import Database
from crucible.store.names import FILE_NAME

SCRIPT = {"answers": [{"when": "(?i)only the first", "text": "One file it is."}]}
WITH_FILES = "ses-files"
FILES = [
    {"name": "first.csv", "size": 12, "media_type": "text/csv"},
    {"name": "second.csv", "size": 2048, "media_type": "text/csv"},
]
LARGE = bytes(8 << 20)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home: Path = tmp_path_factory.mktemp("files")
    # Playwright has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(asyncio.run, write_conversation(home)).result()
    with served(home, SCRIPT) as found:
        yield found
    assert not found.faults, "\n".join(found.faults)


async def write_conversation(home: Path) -> None:
    """A prompt with two files that was cut short, and a turn that went on with it."""
    told: list[tuple[int, str, dict[str, Any]]] = [
        (1, "turn-began", {"intent": "chat", "prompt": "read both", "attachments": FILES}),
        (1, "text", {"text": "I have begun"}),
        (1, "turn-ended", {"end": "interrupted", "text": "I have begun", "error": {}}),
        (2, "turn-began", {"intent": "chat", "prompt": "", "resumed": True, "attachments": []}),
        (2, "text", {"text": "Both are read."}),
        (2, "turn-ended", {"end": "done", "text": "Both are read.", "error": {}}),
    ]
    events = [
        Event(number=number, turn=turn, kind=kind, at=1.0, data={"resumed": False, **data})  # type: ignore[arg-type]
        for number, (turn, kind, data) in enumerate(told, start=1)
    ]
    messages: list[Message] = [
        UserMessage(text="read both", turn=1),
        AssistantMessage(parts=(Text(text="Both are read."),)),
    ]
    database = Database(f"sqlite:///{home / FILE_NAME}")
    record = new_record(WITH_FILES, SessionOptions())
    await SqlSessions(database).append(record, first=0, messages=messages, events=events)
    await Conversations(database, uploads=home / "uploads").create(
        WITH_FILES, "local", title="With files"
    )
    await asyncio.to_thread(database.close)


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    with browsing(browser, site) as found:
        enter(found, site)
        yield found


def test_files_come_along_with_an_edited_prompt_unless_taken_off(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/c/{WITH_FILES}")
    turns = page.get_by_role("article")
    expect(turns.last).to_contain_text("Both are read.")
    # What went on with another turn has no prompt of its own to edit.
    expect(turns.last.get_by_role("button", name="Edit the prompt")).to_have_count(0)
    expect(turns.last.get_by_role("button", name="Try again")).to_have_count(1)
    turns.first.get_by_role("button", name="Edit the prompt").click()
    along = page.get_by_role("list", name="Files that come along")
    expect(along.get_by_role("listitem")).to_have_count(2)
    along.get_by_role("button", name="Take second.csv away").click()
    expect(along.get_by_role("listitem")).to_have_count(1)
    turns.first.get_by_label("Files to attach").set_input_files(
        FilePayload(name="third.csv", mimeType="text/csv", buffer=b"1,2\n")
    )
    expect(along.get_by_role("listitem").filter(has_text="third.csv")).to_contain_text("4 B")
    keep(page, "chat-edit-files")
    check_accessible(page, "edit with files")
    along.get_by_role("button", name="Take third.csv away").click()
    page.get_by_role("textbox", name="Your prompt, changed").fill("only the first")
    turns.first.get_by_role("button", name="Send").click()
    expect(turns.last).to_contain_text("One file it is.")
    is_over(page)
    page.reload()
    expect(turns).to_have_count(1)
    files = turns.get_by_role("list", name="Attached files").get_by_role("listitem")
    expect(files).to_have_count(1)
    expect(files).to_contain_text("first.csv")


def test_a_large_file_is_seen_on_its_way_and_nothing_is_sent_before_it_is_there(page: Page) -> None:
    page.get_by_role("textbox", name="Message").fill("what is in it?")
    send = page.get_by_role("button", name="Send")
    with slow_upload(page):
        page.get_by_label("Files to attach").set_input_files(
            FilePayload(name="large.bin", mimeType="application/octet-stream", buffer=LARGE)
        )
        bar = page.get_by_role("progressbar", name="Upload of large.bin")
        # Some of it is there, and not all.
        page.wait_for_function(
            "() => { const bar = document.querySelector('progress'); return bar && bar.value > 0 && bar.value < 1; }"
        )
        expect(send).to_be_disabled()
        keep(page, "chat-uploading")
    expect(bar).to_have_count(0)
    file = page.get_by_role("list", name="Files to attach").get_by_role("listitem")
    expect(file).to_contain_text("8.4 MB")
    expect(send).to_be_enabled()
