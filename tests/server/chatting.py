"""Chats over HTTP, as the tests of conversations speak them."""

from __future__ import annotations

import json
from typing import Any

import httpx

API = "/api/v1"
MAY_PUBLISH = {"policy": {"allow": ["publish(/**)"]}}


async def chat(http: httpx.AsyncClient, prompt: str, **asked: Any) -> dict[str, Any]:
    answer = await http.post(f"{API}/chat", json={"prompt": prompt, "intent": "chat", **asked})
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def said(http: httpx.AsyncClient, prompt: str, **asked: Any) -> dict[str, Any]:
    """A whole turn."""
    told = await chat(http, prompt, **asked)
    await ended(http, told)
    return told


async def ended(http: httpx.AsyncClient, told: dict[str, Any]) -> list[dict[str, Any]]:
    return await events(http, told["conversation"], told["after"], told["turn"])


async def events(http: httpx.AsyncClient, id: str, after: int, turn: int) -> list[dict[str, Any]]:
    """Of the stream, until that turn has ended."""
    answer = await http.get(f"{API}/sessions/{id}/events", params={"after": after, "turn": turn})
    return parsed(answer.text)


async def transcript(http: httpx.AsyncClient, id: str, **params: Any) -> dict[str, Any]:
    answer = await http.get(f"{API}/conversations/{id}/transcript", params=params)
    told: dict[str, Any] = answer.json()
    return told


async def upload(http: httpx.AsyncClient, name: str, data: bytes) -> httpx.Response:
    return await http.post(f"{API}/upload", files={"file": (name, data)})


def parsed(text: str) -> list[dict[str, Any]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in fields:
            data = json.loads(fields["data"])
            found.append({"number": int(fields["id"]), "kind": fields["event"], "data": data})
    return found
