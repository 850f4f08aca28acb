"""Chats as a person sees them: what Debian's Chromium has drawn, and when. The clock is the browser's own."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import BrowserContext, async_playwright

from benchmarks.figures import AtMost, Figure
from benchmarks.rounds import Readings, milliseconds

CHROMIUM = Path(shutil.which("chromium") or "/usr/bin/chromium-headless-shell")
# As root it has no sandbox of its own; the rest keeps it from looking for its maker's hosts.
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
_PATIENCE_MS = 120_000
_MARK_ENTER = """addEventListener('keydown', (event) => {
  if (event.key === 'Enter') window.enteredAt = performance.now();
}, true)"""
# What is in the page is drawn with the next frame; the first moment after that one is told.
_DRAWN = """([turn, words]) => new Promise((done) => {
  const look = () => {
    const shown = document.querySelector(`article[aria-label="Turn ${turn}"]`);
    const end = shown?.getBoundingClientRect().bottom ?? 0;
    const isSeen = shown?.innerText.includes(words) && end > 0 && end <= innerHeight;
    requestAnimationFrame(isSeen ? () => setTimeout(() => done(performance.now())) : look);
  };
  look();
})"""
_ANSWERED = """() => new Promise((done) => {
  const look = () => {
    const isThere = document.querySelector('textarea').value === 'x';
    requestAnimationFrame(isThere ? () => setTimeout(() => done(performance.now())) : look);
  };
  look();
})"""
_FIRST_SHOWN = """() => new Promise((done) => {
  const box = document.querySelector('[role=log]').parentElement;
  const began = performance.now();
  const look = () => {
    const first = document.querySelector('article[aria-label="Turn 1"]');
    if (first && first.getBoundingClientRect().bottom > 0) {
      return requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
    }
    box.scrollTop = 0;
    requestAnimationFrame(look);
  };
  look();
})"""


@asynccontextmanager
async def browsing(link: str) -> AsyncIterator[BrowserContext]:
    """A browser that was signed in by the link."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        try:
            context = await browser.new_context(viewport={"width": 1280, "height": 800})
            context.set_default_timeout(_PATIENCE_MS)
            await context.add_init_script(_MARK_ENTER)
            page = await context.new_page()
            await page.goto(link)
            await page.get_by_role("textbox", name="Message").wait_for()
            await page.close()
            yield context
        finally:
            await browser.close()


async def first_words(context: BrowserContext, url: str, words: str) -> Readings:
    """From Enter to the first word of the answer, in a new conversation and in the same one after that."""
    page = await context.new_page()
    await page.goto(url)
    found = {}
    for turn, key in enumerate(("drawn-first", "drawn-next"), start=1):
        await page.get_by_role("textbox", name="Message").fill("Say something")
        await page.keyboard.press("Enter")
        shown = await page.evaluate(_DRAWN, [turn, words])
        found[key] = (shown - await page.evaluate("window.enteredAt")) / 1000
        await page.get_by_role("button", name="Send").wait_for()
    await page.close()
    return found


async def opened(context: BrowserContext, url: str, turn: int, words: str) -> Readings:
    """From asking for the page until its last message is drawn and a key that was pressed then is, too."""
    page = await context.new_page()
    await page.goto(url, wait_until="commit")
    await page.evaluate(_DRAWN, [turn, words])
    await page.keyboard.press("x")
    answered = await page.evaluate(_ANSWERED)
    await page.close()
    return {"drawn-open": answered / 1000}


async def scrolled_back(context: BrowserContext, url: str, turn: int, words: str) -> float:
    """Seconds of scrolling up without a pause, until its first message is drawn."""
    page = await context.new_page()
    await page.goto(url)
    await page.evaluate(_DRAWN, [turn, words])
    took: float = await page.evaluate(_FIRST_SHOWN)
    await page.close()
    return took / 1000


def figures(samples: Mapping[str, list[float]], messages: int) -> list[Figure]:
    missing = "" if CHROMIUM.exists() else f"there is no {CHROMIUM}"
    return [
        Figure(
            key="drawn-first",
            name="chat in a browser: Enter to the first word drawn, new conversation, without the model's own time",
            samples=milliseconds(samples.get("drawn-first")),
            why_missing=missing,
        ),
        Figure(
            key="drawn-next",
            name="chat in a browser: Enter to the first word drawn, next turn, without the model's own time",
            samples=milliseconds(samples.get("drawn-next")),
            why_missing=missing,
        ),
        Figure(
            key="drawn-open",
            name=f"a conversation of {messages:,} messages opens in a browser: last message drawn, a key answered",
            samples=milliseconds(samples.get("drawn-open")),
            targets=(AtMost(limit=1000),),
            why_missing=missing,
        ),
        Figure(
            key="drawn-back",
            name=f"a conversation of {messages:,} messages scrolled back to its first in a browser",
            samples=tuple(samples.get("drawn-back", ())),
            unit="s",
            why_missing=missing,
        ),
    ]
