"""The application as its users have it: a program of its own that serves, and Debian's Chromium before it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, Playwright
from tests.conftest import ROOT, STATE

SCREENSHOTS = STATE / "screenshots"
CRUCIBLE = str(Path(sys.executable).with_name("crucible"))
CHROMIUM = "/usr/bin/chromium-headless-shell"
# As root it has no sandbox of its own; the rest keeps it from looking for its maker's hosts.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
PASSWORD = "correct horse battery staple"
PATIENCE_MS = 120_000
# Of the page itself: what is in a frame tries what it may not.
_VIOLATION = "policy violated:"
TELL_VIOLATIONS = f"""if (self === top) addEventListener('securitypolicyviolation', (event) =>
  console.error('{_VIOLATION}', event.violatedDirective, event.blockedURI, event.sourceFile, event.sample))"""
_SETS = re.compile("^CRUCIBLE|^LLM_|_API_KEY$")
_LINK = re.compile(r"http\S+/enter#\S+")
_ADDRESS = re.compile(r"Serving on (http\S+) and")


@dataclass(slots=True)
class Site:
    url: str
    home: Path
    said: list[str]
    environment: Mapping[str, str]
    faults: list[str] = field(default_factory=list)

    def link(self) -> str:
        """Signs one browser in, once."""
        found = _LINK.search(self.crucible("link"))
        assert found is not None
        return found[0]

    def crucible(self, *words: str) -> str:
        done = subprocess.run(
            [CRUCIBLE, *words],
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, f"{words}: {done.stdout.decode(errors='replace')}"
        return done.stdout.decode()


@contextmanager
def served(
    home: Path, script: Mapping[str, Any] | None, *options: str, **more: str
) -> Iterator[Site]:
    """`crucible serve` at any free port, with a model that says what the script has, or as a first visit finds it."""
    environment = {name: value for name, value in os.environ.items() if not _SETS.search(name)}
    environment |= {"CRUCIBLE_HOME": str(home), **more}
    if script is not None:
        written = home / "script.json"
        written.write_text(json.dumps(script))
        environment |= {"LLM_PROVIDER": "scripted", "LLM_MODEL": str(written)}
    command = [CRUCIBLE, "serve", "--port", "0", *options]
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        said: list[str] = []
        url = _listen(program, said)
        try:
            yield Site(url=url, home=home, said=said, environment=environment)
        finally:
            program.send_signal(signal.SIGTERM)
            program.wait(timeout=240)


def _listen(program: subprocess.Popen[str], said: list[str]) -> str:
    """The address that it tells. What it says afterwards is taken all the same, so that it never waits for us."""
    assert program.stderr is not None
    for line in program.stderr:
        said.append(line)
        if found := _ADDRESS.search(line):
            threading.Thread(target=said.extend, args=(program.stderr,), daemon=True).start()
            return found[1].replace("127.0.0.1", "localhost")
    raise AssertionError("".join(said))


def start_chromium(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))


@contextmanager
def browsing(browser: Browser, site: Site, **options: Any) -> Iterator[Page]:
    """A browser that nobody has used yet, and its first page. What fails in a page fails the test."""
    context = browser.new_context(
        # Movements are drawn by the processor here, picture by picture.
        viewport={"width": 1280, "height": 800}, reduced_motion="reduce", **options
    )  # fmt: skip
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(TELL_VIOLATIONS)
    try:
        yield watched(context, site)
    finally:
        context.close()


def watched(context: BrowserContext, site: Site) -> Page:
    page = context.new_page()
    page.on("pageerror", lambda error: _fault(site, f"{page.url}: {error}"))
    page.on("console", lambda told: _hear(site, page, told.text))
    return page


def _hear(site: Site, page: Page, words: str) -> None:
    if words.startswith(_VIOLATION):
        site.faults.append(f"{page.url}: {words}")


def _fault(site: Site, words: str) -> None:
    # What is in a frame tries what it may not, and is told so.
    if 'a frame with origin "null"' not in words:
        site.faults.append(words)


def sign_up(page: Page, site: Site, name: str) -> None:
    page.goto(f"{site.url}/sign-up")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    page.get_by_role("button", name="Sign up").click()
    page.get_by_role("textbox", name="Message").wait_for()


def enter(page: Page, site: Site) -> None:
    page.goto(site.link())
    page.get_by_role("textbox", name="Message").wait_for()


def say(page: Page, words: str) -> None:
    page.get_by_role("textbox", name="Message").fill(words)
    page.get_by_role("button", name="Send").click()


def is_over(page: Page) -> None:
    page.get_by_role("button", name="Send").wait_for()


def keep(page: Page, name: str) -> None:
    """A picture for people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def axe_source() -> str:
    return (ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text()


def check_accessible(page: Page, where: str, *rules: str) -> None:
    """axe finds nothing serious: by all its rules, or by those named."""
    page.evaluate(axe_source())
    options: dict[str, Any] = {"resultTypes": ["violations"], "iframes": False}
    if rules:
        options["runOnly"] = rules
    told = page.evaluate("(options) => axe.run(document, options)", options)
    serious = [
        f"{where}: {one['id']} ({one['impact']}): "
        + "; ".join(node["html"][:160] for node in one["nodes"][:3])
        for one in told["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert not serious, "\n".join(serious)


@contextmanager
def slow_upload(page: Page) -> Iterator[None]:
    """As from a place with a poor connection: what is large is not there before the block has ended."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    _limit_upload(session, 1 << 16)
    try:
        yield
    finally:
        _limit_upload(session, -1)


def _limit_upload(session: CDPSession, bytes_per_second: int) -> None:
    conditions = {"offline": False, "latency": 0, "downloadThroughput": -1}
    session.send(
        "Network.emulateNetworkConditions", {**conditions, "uploadThroughput": bytes_per_second}
    )
