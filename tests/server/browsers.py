"""Browsers as the server sees them: a jar for cookies, an Origin, and what a page of ours sends with a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

PASSWORD = "correct horse battery"


class Browser:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.csrf = ""

    @property
    def cookie(self) -> str:
        return self.client.cookies.get("crucible_session") or ""

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """As a page of ours asks: with the header that shows it."""
        headers = {"X-Crucible-CSRF": self.csrf} if self.csrf else {}
        headers |= options.pop("headers", {})
        return await self.client.request(method, f"/api/v1{path}", headers=headers, **options)

    async def sign(self, how: str, **fields: str) -> httpx.Response:
        """`how` is sign-up, sign-in, sign-out or link."""
        answer = await self.ask("POST", f"/auth/{how}", json=fields)
        if answer.is_success:
            self.csrf = answer.json()["csrf"] or ""
        return answer

    async def auth(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.ask("GET", "/auth")).json()
        return found


@asynccontextmanager
async def browser(url: str, **headers: str) -> AsyncIterator[Browser]:
    sent = {"Origin": url, "Sec-Fetch-Site": "same-origin", **headers}
    async with httpx.AsyncClient(base_url=url, headers=sent, timeout=120) as client:
        yield Browser(client)
