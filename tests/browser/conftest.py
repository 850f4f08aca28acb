from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tests.browser.sites import PATIENCE_MS, start_chromium

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = start_chromium(playwright)
        try:
            yield chromium
        finally:
            chromium.close()
