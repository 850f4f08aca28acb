"""One machine, as a person uses it: a large file goes in, a server inside is seen, the machine is kept and forked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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
from tests.conftest import own_home

pytestmark = pytest.mark.vm

SIZE = (3 << 20) + 7
MEASURE = {"name": "bash", "arguments": {"command": "wc -c < large.bin"}}
SCRIPT = {
    "answers": [
        {"when": "measure my file", "calls": [MEASURE]},
        {"when": str(SIZE), "text": "All of it is there."},
    ]
}
PORT = 8123
SERVER = f"""
import socket
with socket.create_server(("127.0.0.1", {PORT})) as server:
    while True:
        with server.accept()[0] as caller:
            caller.recv(65536)
            caller.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Type: text/plain\\r\\n\\r\\nserved from inside")
"""


@pytest.fixture(scope="module")
def site(prepared_home: Path) -> Iterator[Site]:
    with own_home(prepared_home) as home, served(home, SCRIPT) as found:
        yield found
        names = re.findall(r"^(?:agent|kept)-\S+", found.crucible("list"), re.MULTILINE)
        found.crucible("rm", "--force", *names)
    assert not found.faults, "\n".join(found.faults)


def test_a_machine_is_given_a_file_looked_into_kept_and_forked(
    browser: Browser, site: Site
) -> None:
    with browsing(browser, site) as page:
        enter(page, site)
        name = send_large_file(page)
        site.crucible("exec", "--detach", name, "python3", "-c", SERVER)
        page.goto(f"{site.url}/sandboxes/{name}/ports")
        open_port(page)
        take_snapshot(page, site)
        fork(page, site)


def send_large_file(page: Page) -> str:
    """It is in the workspace when the turn begins. The name of the sandbox."""
    page.get_by_role("textbox", name="Message").fill("measure my file")
    with slow_upload(page):
        page.get_by_label("Files to attach").first.set_input_files(
            FilePayload(name="large.bin", mimeType="application/octet-stream", buffer=bytes(SIZE))
        )
        page.get_by_role("progressbar", name="Upload of large.bin").wait_for()
    send = page.get_by_role("button", name="Send")
    expect(send).to_be_enabled()
    send.click()
    page.get_by_text("All of it is there.").wait_for()
    is_over(page)
    told = page.request.get(page.url.replace("/c/", "/api/v1/sessions/")).json()
    return str(told["place"]["name"])


def open_port(page: Page) -> None:
    row = page.get_by_role("list", name="Ports").get_by_role("listitem").filter(has_text=str(PORT))
    expect(row).to_contain_text("listens")
    row.get_by_role("button", name="Open on the server's machine").click()
    link = row.get_by_role("link")
    expect(link).to_have_attribute("href", re.compile(r"^http://127\.0\.0\.1:\d+/$"))
    keep(page, "sandbox-ports")
    check_accessible(page, "ports")
    with page.context.expect_page() as opening:
        link.click()
    expect(opening.value.locator("body")).to_have_text("served from inside")
    opening.value.close()


def take_snapshot(page: Page, site: Site) -> None:
    choose(page, "Take a snapshot")
    page.get_by_role("textbox", name="Tag").fill("kept-by-the-page")
    page.get_by_role("button", name="Take it").click()
    page.get_by_text("Kept as kept-by-the-page").wait_for()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert "kept-by-the-page" in site.crucible("snapshot", "list")


def fork(page: Page, site: Site) -> None:
    choose(page, "Fork")
    page.get_by_role("textbox", name="Name of the fork").fill("kept-fork")
    keep(page, "sandbox-fork")
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    page.get_by_role("heading", name="kept-fork").wait_for()
    page.get_by_text("running", exact=True).first.wait_for()
    # It goes on from that very moment, with its files.
    assert str(SIZE) in site.crucible("exec", "kept-fork", "wc", "-c", "/workspace/large.bin")


def choose(page: Page, what: str) -> None:
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name=what).click()
