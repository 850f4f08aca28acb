"""Terminals for browsers, which cannot send a token: a ticket in the address, good once, for one place, for moments."""

from __future__ import annotations

import httpx
import pytest
from tests.server.scripted import PlayedProcess, Staged, new_box
from tests.server.test_terminals import ending, start, told_until
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from crucible.errors import Unauthenticated
from crucible.server import tickets
from crucible.server.auth import owner_caller
from crucible.server.tickets import Tickets
from crucible.server.tokens import Scope, list_tokens, revoke_token


async def echo(process: PlayedProcess) -> int:
    while data := await process.hear():
        await process.say(data)
        if data == b"bye\n":
            return 3
    return 0


async def ticket_for(staged: Staged, place: str, scope: Scope = Scope.RUN) -> tuple[str, str]:
    async with staged.client(scope) as client:
        answer = await client.post(f"/api/v1/sandboxes/{place}/tickets")
        assert answer.status_code == 201, answer.text
        told = answer.json()
    return told["ticket"], told["path"]


def browser(staged: Staged, path: str, ticket: str, origin: str | None = None) -> connect:
    """As a page opens it: with an Origin and no header of its own."""
    url = staged.url.replace("http://", "ws://") + f"{path}?ticket={ticket}"
    return connect(url, origin=origin or staged.url, open_timeout=120)  # type: ignore[arg-type]


async def refusal(staged: Staged, path: str, ticket: str, origin: str | None = None) -> int:
    with pytest.raises(InvalidStatus) as refused:
        async with browser(staged, path, ticket, origin):
            pass
    return int(refused.value.response.status_code)


async def test_a_ticket_opens_one_terminal_once(staged: Staged) -> None:
    staged.backend.parts["echo"] = echo
    box = await new_box(staged)
    ticket, path = await ticket_for(staged, f"{box}/terminal")
    async with browser(staged, path, ticket) as socket:
        await socket.send(start("echo"))
        await socket.send(b"hello\n")
        await told_until(socket, b"hello")
        await socket.send(b"bye\n")
        assert (await ending(socket))["exit"]["status"] == 3
    assert await refusal(staged, path, ticket) == 401


async def test_a_ticket_joins_the_command_it_is_for(staged: Staged) -> None:
    staged.backend.parts["echo"] = echo
    box = await new_box(staged)
    async with staged.client() as client:
        asked = {"argv": ["echo"], "terminal": True}
        begun = await client.post(f"/api/v1/sandboxes/{box}/commands", json=asked)
    ticket, path = await ticket_for(staged, f"{box}/commands/{begun.json()['id']}/terminal")
    assert await refusal(staged, f"/api/v1/sandboxes/{box}/terminal", ticket) == 401
    # An attempt at another place has used it up.
    assert await refusal(staged, path, ticket) == 401
    ticket, path = await ticket_for(staged, f"{box}/commands/{begun.json()['id']}/terminal")
    async with browser(staged, path, ticket) as socket:
        await socket.send(b"bye\n")
        assert (await ending(socket))["exit"]["status"] == 3


async def test_a_page_of_another_origin_opens_nothing(staged: Staged) -> None:
    box = await new_box(staged)
    ticket, path = await ticket_for(staged, f"{box}/terminal")
    assert await refusal(staged, path, ticket, "http://evil.example") == 403
    assert await refusal(staged, path, ticket, "null") == 403


async def test_a_ticket_is_no_better_than_the_token_it_was_made_with(staged: Staged) -> None:
    box = await new_box(staged)
    ticket, path = await ticket_for(staged, f"{box}/terminal")
    for token in list_tokens(staged.store):
        revoke_token(staged.store, token.id)
    assert await refusal(staged, path, ticket) == 401
    async with staged.client(Scope.READ) as client:
        answer = await client.post(f"/api/v1/sandboxes/{box}/terminal/tickets")
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_ticket_is_for_a_websocket_alone(staged: Staged) -> None:
    box = await new_box(staged)
    ticket, _ = await ticket_for(staged, f"{box}/terminal")
    async with httpx.AsyncClient(base_url=staged.url, timeout=120) as client:
        answer = await client.get("/api/v1/sandboxes", params={"ticket": ticket})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def test_old_tickets_are_worth_nothing(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tickets, "LIFETIME_S", 0.0)
    box = await new_box(staged)
    ticket, path = await ticket_for(staged, f"{box}/terminal")
    assert await refusal(staged, path, ticket) == 401
    assert await refusal(staged, path, "x" * 1000) == 401


def test_only_so_many_tickets_are_kept() -> None:
    kept = Tickets()
    given = [kept.give(owner_caller(), "/x") for _ in range(tickets.MOST_TICKETS + 1)]
    with pytest.raises(Unauthenticated):
        kept.redeem(given[0], "/x")
    assert kept.redeem(given[1], "/x") == owner_caller()
