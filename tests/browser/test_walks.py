"""What a person does, in a real browser, before the real server, with real machines."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    say,
    served,
    sign_up,
    watched,
)
from tests.conftest import own_home

pytestmark = pytest.mark.vm

PLOT = """
import csv
rows = list(csv.DictReader(open('prices.csv')))
figure = {
    'data': [{'type': 'scatter', 'name': 'price', 'x': [r['day'] for r in rows],
              'y': [float(r['price']) for r in rows]}],
    'layout': {'title': {'text': 'Price of a share'}},
}
class Figure:
    def _repr_mimebundle_(self, **_):
        return {'application/vnd.plotly.v1+json': figure, 'text/plain': 'a chart of %d days' % len(rows)}
Figure()
"""
# What is in a frame tries everything that it should not be able to do, and writes what came of it.
EVIL_PAGE = """<!doctype html><title>report</title><body><h1 id=me>evil</h1><script>
const told = [];
const attempt = (name, act) => {
  try { act(); told.push(name + ' WORKED'); } catch (e) { told.push(name + ' refused'); }
};
attempt('parent', () => parent.document.title);
attempt('top', () => top.document.cookie);
attempt('cookie', () => { if (document.cookie) throw 1; document.cookie = 'a=b'; });
attempt('storage', () => localStorage.setItem('a', 'b'));
attempt('leave', () => { top.location.href = '/stolen'; });
attempt('popup', () => { if (!window.open('/stolen')) throw 1; });
fetch('/api/v1/auth').then(() => told.push('fetch WORKED'), () => told.push('fetch refused'))
  .then(() => { document.getElementById('me').textContent = told.join(', ') + ', origin ' + self.origin; });
</script></body>"""
EVIL_PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40" onload="top.hacked = 1">
<script>parent.hacked = 1; top.location.href = '/stolen';</script><text y="20">picture</text></svg>"""
EVIL_WORDS = (
    "Here you are: <script>window.hacked = 1</script> <img src=x onerror='window.hacked = 1'> "
    "<iframe srcdoc='<script>parent.hacked = 1</script>'></iframe> [link](javascript:window.hacked=1) "
    "![picture](https://elsewhere.test/a.png) the end of it"
)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


SCRIPT = {
    "answers": [
        {"when": "plot the prices", "text": "I plot the file.", "calls": [call("python", code=PLOT)]},
        {"when": "a chart of 3 days", "text": "The price rose over the **three** days."},
        {"when": "run something risky", "calls": [call("bash", command="echo did run; rm -rf /tmp/x")]},
        {"when": "did run", "text": "It was done."},
        {"when": "did not approve", "text": "Then I leave it."},
        {"when": "write two files", "calls": [call("bash", command="echo 1 > one; echo step-one")]},
        {"when": "step-one", "calls": [call("bash", command="echo 2 > two; echo step-two")]},
        {"when": "step-two", "text": "Both are written."},
        {"when": "wait for long", "calls": [call("bash", command="echo begun; sleep 6007")]},
        {"when": "count slowly", "text": " ".join(f"n{n}" for n in range(300)), "piece": 8, "delay_s": 0.02},
        {"when": "say evil things", "text": EVIL_WORDS},
        {
            "when": "make evil files",
            "calls": [
                call("write", path="evil.html", content=EVIL_PAGE),
                call("write", path="evil.svg", content=EVIL_PICTURE),
            ],
        },
        {"when": "Handed", "text": "There they are."},
        {
            "when": "evil.svg",
            "calls": [call("publish", path="evil.html"), call("publish", path="evil.svg")],
        },
    ]
}  # fmt: skip
PRICES = "day,price\n2026-11-11,10.5\n2026-11-12,11.25\n2026-11-13,12\n"


@pytest.fixture(scope="module")
def site(prepared_home: Path) -> Iterator[Site]:
    with own_home(prepared_home) as home, served(home, SCRIPT) as found:
        yield found
        for name in re.findall(r"^\S*agent-\S+", found.crucible("list"), re.MULTILINE):
            found.crucible("rm", "--force", name)
    assert not found.faults, "\n".join(found.faults)


@pytest.fixture
def page(browser: Browser, site: Site, request: pytest.FixtureRequest) -> Iterator[Page]:
    with browsing(browser, site) as found:
        enter(found, site)
        yield found
        keep(found, f"end-of-{request.node.name}")


def test_from_signing_up_to_a_chart_of_a_file_that_can_be_touched(
    browser: Browser, prepared_home: Path
) -> None:
    with own_home(prepared_home) as home, served(home, SCRIPT, "--accounts") as site:
        with browsing(browser, site) as page:
            sign_up(page, site, "ada")
            walk_to_a_chart(page)
            keep(page, "sign-up-to-chart")
            page.get_by_role("button", name="More for this conversation").wait_for()
        for name in re.findall(r"^\S*agent-\S+", site.crucible("list"), re.MULTILINE):
            site.crucible("rm", "--force", name)
    assert not site.faults, "\n".join(site.faults)


def walk_to_a_chart(page: Page) -> None:
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("radio", name=re.compile("^Auto"))).to_be_checked()
    page.get_by_role("button", name="Test local microVM").click()
    page.get_by_text("It works.").wait_for()
    expect(page.get_by_role("list", name="Stages").get_by_role("listitem")).to_have_count(5)
    keep(page, "settings-provider")
    check_accessible(page, "settings")
    page.get_by_role("link", name="New chat").click()
    page.get_by_label("Files to attach").first.set_input_files(
        FilePayload(name="prices.csv", mimeType="text/csv", buffer=PRICES.encode())
    )
    page.get_by_role("textbox", name="Message").fill("please plot the prices of my file")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("The price rose over the three days.").wait_for()
    frame = page.frame_locator("iframe").first
    frame.locator(".js-plotly-plot .scatterlayer .point").first.wait_for(state="attached")
    assert frame.locator("body").evaluate("() => self.origin") == "null"
    keep(page, "chat-chart")
    with page.expect_download() as downloading:
        page.get_by_role("link", name=re.compile("^Download ")).first.click()
    assert "Price of a share" in downloading.value.path().read_text()
    # What is kept is all there when one comes again.
    page.reload()
    page.frame_locator("iframe").first.locator(".js-plotly-plot").wait_for()
    expect(page.get_by_role("article", name="Turn 1")).to_have_count(1)
    expect(page.get_by_text("prices.csv").first).to_be_visible()


def test_what_must_be_asked_for_waits_for_the_answer(page: Page) -> None:
    page.get_by_role("switch", name="Ask before running").click()
    say(page, "run something risky")
    allow = page.get_by_role("button", name="Allow once")
    allow.wait_for()
    keep(page, "chat-approval")
    check_accessible(page, "approval")
    allow.click()
    page.get_by_text("It was done.").wait_for()
    say(page, "now run something risky again")
    page.get_by_role("button", name="Deny").click()
    page.get_by_role("button", name="Deny").last.click()
    page.get_by_text("Then I leave it.").wait_for()


def test_it_can_be_stopped_in_the_middle_of_a_command(page: Page, site: Site) -> None:
    say(page, "wait for long")
    page.get_by_role("region", name="Output").get_by_text("begun").wait_for()
    keep(page, "chat-running")
    page.get_by_role("button", name="Stop").click()
    is_over(page)
    # What ends while it is looked at is no failure.
    programs = ("sh", "-c", "for one in /proc/[0-9]*; do cat $one/cmdline 2>&1 || true; done")
    assert "6007" not in site.crucible("exec", sandbox_of(page), *programs)


def sandbox_of(page: Page) -> str:
    """That of the conversation on the page."""
    told = page.request.get(page.url.replace("/c/", "/api/v1/sessions/")).json()
    return str(told["place"]["name"])


def test_what_a_step_did_is_taken_back_by_going_to_before_it(page: Page, site: Site) -> None:
    page.get_by_role("switch", name="Keep steps").click()
    say(page, "write two files")
    page.get_by_text("Both are written.").wait_for()
    is_over(page)
    keep(page, "chat-steps")
    page.get_by_role("button", name="Rewind to here").last.click()
    page.get_by_text(re.compile("^Taken back")).first.wait_for()
    expect(page.get_by_role("button", name="Rewind to here")).to_have_count(1)
    assert site.crucible("exec", sandbox_of(page), "ls", "/workspace").split() == ["one"]


def test_a_page_that_is_loaded_again_and_a_second_one_miss_nothing(page: Page, site: Site) -> None:
    say(page, "count slowly")
    page.get_by_text(re.compile(r"\bn20\b")).first.wait_for()
    other = watched(page.context, site)
    other.goto(page.url)
    page.reload()
    whole = " ".join(f"n{n}" for n in range(300))
    for one in (page, other):
        expect(one.get_by_text(whole)).to_have_count(1, timeout=120_000)


def test_what_a_model_says_is_never_a_program(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    say(page, "say evil things")
    page.get_by_text("the end of it").wait_for()
    is_over(page)
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("main script, main iframe, main img[onerror]").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert not [url for url in asked if "elsewhere" in url]


def test_what_a_sandbox_made_reaches_nothing_of_the_page(page: Page) -> None:
    say(page, "make evil files")
    page.get_by_text("There they are.").wait_for()
    told = page.frame_locator("iframe[title='evil.html']").locator("#me")
    expect(told).to_have_text(re.compile("fetch"))
    words = told.text_content() or ""
    assert "WORKED" not in words
    assert words.endswith("origin null")
    assert page.evaluate("() => window.hacked") is None
    assert "/stolen" not in page.url
    assert len(page.context.pages) == 1
    keep(page, "chat-frames")
    # Opened by itself, such a file is no page of ours either: its answer says the same as the frame.
    for name in ("evil.html", "evil.svg"):
        address = page.locator(f"iframe[title='{name}']").get_attribute("src") or ""
        answer = page.context.request.get(page.url.split("/c/")[0] + address)
        assert answer.ok
        policy = answer.headers["content-security-policy"]
        assert "sandbox" in policy
        assert "allow-same-origin" not in policy


def test_a_host_that_was_denied_can_be_allowed(page: Page, site: Site) -> None:
    site.crucible(
        "create", "agent-net", "--start", "--network", "allowlist", "--allow", "near.test"
    )
    ask = "import socket; socket.create_connection(('far.test', 80), 20)"
    dial = ("exec", "agent-net", "sh", "-c", f'python3 -c "{ask}" || true')
    site.crucible(*dial)
    page.get_by_role("link", name="Sandboxes", exact=True).click()
    page.get_by_role("table", name="Sandboxes").get_by_text("agent-net").wait_for()
    keep(page, "sandboxes")
    check_accessible(page, "sandboxes")
    page.get_by_role("table", name="Sandboxes").get_by_text("agent-net").click()
    page.get_by_role("tab", name="Network").click()
    decisions = page.get_by_role("region", name="Decisions")
    expect(decisions).to_contain_text("denied")
    keep(page, "sandbox-network")
    check_accessible(page, "network")
    page.get_by_role("button", name="Allow this host").click()
    page.get_by_role("button", name="Take far.test out").wait_for()
    site.crucible(*dial)
    # It is let through now, and there is no such host.
    expect(decisions).to_contain_text("failed")


def test_a_terminal_takes_keys_and_knows_its_size(page: Page, site: Site) -> None:
    site.crucible("create", "agent-shell", "--start")
    page.goto(f"{site.url}/sandboxes/agent-shell/terminal")
    rows = page.locator(".xterm-rows")
    expect(rows).to_contain_text("$")
    before = width(page, "first")
    keep(page, "sandbox-terminal")
    page.set_viewport_size({"width": 800, "height": 800})
    # Until the new size has come there.
    assert any(width(page, f"again{n}") < before for n in range(100))


def width(page: Page, mark: str) -> int:
    """What the shell takes for its width."""
    page.keyboard.type(f"echo {mark}=$(stty size)=\n")
    rows = page.locator(".xterm-rows")
    told = re.compile(rf"{mark}=\d+\s(\d+)=")
    expect(rows).to_contain_text(told)
    found = told.search(rows.inner_text())
    assert found is not None
    return int(found[1])


def test_files_are_walked_written_and_taken_away(page: Page, site: Site) -> None:
    site.crucible("create", "agent-files", "--start")
    page.goto(f"{site.url}/sandboxes/agent-files/files")
    page.get_by_label("Files to put here").set_input_files(
        FilePayload(name="note.txt", mimeType="text/plain", buffer=b"first\n")
    )
    page.get_by_role("row", name=re.compile("note.txt")).click()
    text = page.get_by_role("textbox", name="Text of /workspace/note.txt")
    expect(text).to_have_value("first\n")
    text.fill("second\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved").wait_for()
    assert site.crucible("exec", "agent-files", "cat", "/workspace/note.txt") == "second\n"
    keep(page, "sandbox-files")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download").click()
    assert downloading.value.path().read_text() == "second\n"
