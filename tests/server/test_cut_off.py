"""What is open when its user signs out, is disabled or loses a token: it ends, and what others have open goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.agent.scenes import Say
from tests.conftest import Run
from tests.server.agent_stage import agent_staging
from tests.server.browsers import PASSWORD, Browser, browser
from tests.server.conftest import Server, until
from tests.server.scripted import PlayedBackend, PlayedProcess, played
from tests.server.test_terminals import start, told_until
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from crucible.accounts import passwords
from crucible.errors import CredentialEnded
from crucible.server import visits
from crucible.server.administering import change
from crucible.server.auth import owner_caller
from crucible.server.passage import CLOSED_UNKNOWN, Passage
from crucible.server.people import OpenPeople
from crucible.server.problems import problem
from crucible.server.store import Store
from crucible.server.tokens import Scope, create_token, list_tokens, revoke_token
from crucible.store.lazy import own_database
from crucible.wire.frames import WINDOW_BYTES

ENDED = "credential-ended"
HANGUP = 1


@dataclass(slots=True, kw_only=True)
class House:
    """One server with an administrator, and as many others as the tests need."""

    server: Server
    backend: PlayedBackend
    model: Any
    admin: Browser
    count: int = 0
    ids: dict[str, str] = field(default_factory=dict)

    async def newcomer(self) -> str:
        self.count += 1
        name = f"user-{self.count}"
        answer = await self.admin.ask("POST", "/users", json={"name": name, "password": PASSWORD})
        assert answer.status_code == 201, answer.text
        self.ids[name] = answer.json()["id"]
        return name

    @asynccontextmanager
    async def signed_in(self, name: str) -> AsyncIterator[Browser]:
        async with browser(self.server.url) as page:
            assert (await page.sign("sign-in", name=name, password=PASSWORD)).is_success
            yield page

    async def disable(self, name: str) -> None:
        answer = await self.admin.ask("PATCH", f"/users/{self.ids[name]}", json={"disabled": True})
        assert answer.is_success, answer.text

    def process(self, box: str) -> PlayedProcess:
        return self.backend.machines[box].processes[-1]

    @asynccontextmanager
    async def terminal(self, page: Browser, box: str, **fields: Any) -> AsyncIterator[Any]:
        """As a page opens one: with a ticket."""
        told = (await page.ask("POST", f"/sandboxes/{box}/terminal/tickets")).json()
        async with socket_at(self.server, told) as socket:
            await socket.send(start("echo", **fields))
            await socket.send(b"hello")
            await told_until(socket, b"hello")
            yield socket


def socket_at(server: Server, ticket: dict[str, Any]) -> connect:
    url = server.url.replace("http://", "ws://")
    place = f"{url}{ticket['path']}?ticket={ticket['ticket']}"
    return connect(place, origin=server.url, open_timeout=120)  # type: ignore[arg-type]


async def echo(process: PlayedProcess) -> int:
    while data := await process.hear():
        await process.say(data)
    return 0


async def deaf(process: PlayedProcess) -> int:
    await process.say(b"hello")
    return await process.for_ever()


@pytest.fixture(scope="module")
def house(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    context = _house(tmp_path_factory.mktemp("house"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "MEMORY_KIB", 8 * passwords.LANES)
        patch.setattr(passwords, "PASSES", 1)
        # Only what looks at once shall be seen here, but for one test.
        patch.setattr(visits, "LOOK_EVERY_S", 3600.0)
        yield run(context.__aenter__())
        run(context.__aexit__(None, None, None))


@asynccontextmanager
async def _house(home: Path) -> AsyncIterator[House]:
    backend, manager = played(home / "state")
    backend.parts |= {"echo": echo, "deaf": deaf}
    async with agent_staging(home, has_accounts=True, manager=manager) as stage:
        server = stage.server
        logins = (await server.domain.people.get()).logins
        await logins.add_first("ada", PASSWORD)
        async with browser(server.url) as admin:
            assert (await admin.sign("sign-in", name="ada", password=PASSWORD)).is_success
            yield House(server=server, backend=backend, model=stage.scene.model, admin=admin)


async def new_box(page: Browser, name: str) -> str:
    body = {"name": name, "settings": {"network": "off"}}
    answer = await page.ask("POST", "/sandboxes", json=body)
    assert answer.status_code == 201, answer.text
    return name


class Reader:
    """Events as they come, kept until their end."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.kinds: list[str] = []
        self.last: dict[str, Any] = {}

    async def until(self, kind: str) -> None:
        """Raises StopAsyncIteration if they end before."""
        while kind not in self.kinds:
            await self._take()

    async def end(self) -> str:
        """The code of the error at the end, "" if there is none."""
        while True:
            try:
                await self._take()
            except StopAsyncIteration:
                is_error = bool(self.kinds) and self.kinds[-1] == "error"
                return str(self.last["code"]) if is_error else ""

    async def _take(self) -> None:
        line = await anext(self._lines)
        if line.startswith("event: "):
            self.kinds.append(line.removeprefix("event: "))
        if line.startswith("data: "):
            self.last = json.loads(line.removeprefix("data: "))


@asynccontextmanager
async def reading(
    client: httpx.AsyncClient, method: str, path: str, **options: Any
) -> AsyncIterator[Reader]:
    async with client.stream(method, f"/api/v1{path}", **options) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield Reader(answer)


@asynccontextmanager
async def following(page: Browser, session: str) -> AsyncIterator[Reader]:
    async with reading(page.client, "GET", f"/sessions/{session}/events") as reader:
        yield reader


async def new_session(page: Browser) -> str:
    answer = await page.ask("POST", "/sessions", json={})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def closing_of(socket: ClientConnection) -> int:
    try:
        while True:
            await socket.recv()
    except ConnectionClosed as closed:
        return 0 if closed.rcvd is None else int(closed.rcvd.code)


async def test_signing_out_in_one_tab_ends_what_another_streams(house: House) -> None:
    name, other = await house.newcomer(), await house.newcomer()
    async with (
        house.signed_in(name) as tab,
        house.signed_in(name) as elsewhere,
        house.signed_in(other) as stranger,
    ):
        session = await new_session(tab)
        theirs = await new_session(stranger)
        async with (
            following(tab, session) as streaming,
            following(elsewhere, session) as second,
            following(stranger, theirs) as strangers,
        ):
            async with reading(tab.client, "GET", "/events/stream") as happening:
                answer = await tab.sign("sign-out")
                # Whoever ends their own session is answered all the same.
                assert (answer.status_code, answer.json()["signed_in"]) == (200, False)
                assert await streaming.end() == ENDED
                assert await happening.end() == ENDED
            # Another browser of the same user, and another user.
            house.model.lines.extend([Say(text="Still here."), Say(text="So am I.")])
            for page, reader, id in ((elsewhere, second, session), (stranger, strangers, theirs)):
                said = await page.ask("POST", f"/sessions/{id}/generate", json={"prompt": "Well?"})
                assert said.is_success, said.text
                await reader.until("turn-ended")


async def test_a_turn_lives_on_when_who_asked_is_cut_off(house: House) -> None:
    name = await house.newcomer()
    gate = asyncio.Event()
    async with house.signed_in(name) as page, house.signed_in(name) as other:
        session = await new_session(page)
        house.model.lines.append(Say(text="All of it.", before=gate))
        path = f"/sessions/{session}/generate"
        asking = asyncio.ensure_future(page.ask("POST", path, json={"prompt": "Go on"}))
        async with following(other, session) as watching:
            await watching.until("turn-began")
            await page.sign("sign-out")
            # An answer that had not begun is a refusal.
            refused = await asking
            assert (refused.status_code, refused.json()["code"]) == (401, ENDED)
            gate.set()
            await watching.until("turn-ended")


@pytest.mark.parametrize("how", ["disabled", "removed", "reset"])
async def test_a_user_who_is_let_in_no_more_loses_the_terminal(house: House, how: str) -> None:
    name, other = await house.newcomer(), await house.newcomer()
    async with house.signed_in(name) as page, house.signed_in(other) as stranger:
        box, theirs = await new_box(page, name), await new_box(stranger, other)
        async with house.terminal(page, box) as socket, house.terminal(stranger, theirs) as stays:
            id = house.ids[name]
            if how == "disabled":
                await house.disable(name)
            elif how == "removed":
                assert (await house.admin.ask("DELETE", f"/users/{id}")).is_success
            else:
                assert (await house.admin.ask("POST", f"/users/{id}/password")).is_success
            assert await closing_of(socket) == CLOSED_UNKNOWN
            await until(lambda: HANGUP in house.process(box).signals)
            await stays.send(b"still here")
            await told_until(stays, b"still here")
            assert house.process(theirs).signals == []


async def test_a_terminal_that_was_to_be_left_is_left_and_not_hung_up(house: House) -> None:
    name = await house.newcomer()
    async with house.signed_in(name) as page:
        box = await new_box(page, name)
        async with house.terminal(page, box, on_disconnect="detach") as socket:
            await house.disable(name)
            assert await closing_of(socket) == CLOSED_UNKNOWN
        record = house.server.domain.manager.records.find(box)
        (running,) = house.server.domain.executions.running(record)
        await until(lambda: bool(running.facts.get("detached")))
        assert house.process(box).signals == []


async def test_who_keeps_the_server_from_reading_is_cut_off_as_well(house: House) -> None:
    """A program that takes no input stops the server from listening, not from ending it."""
    name = await house.newcomer()
    async with house.signed_in(name) as page:
        box = await new_box(page, name)
        told = (await page.ask("POST", f"/sandboxes/{box}/terminal/tickets")).json()
        async with socket_at(house.server, told) as socket:
            await socket.send(start("deaf"))
            await told_until(socket, b"hello")
            # More than the program's window: who sends it may have to wait, too.
            sending = asyncio.ensure_future(socket.send(bytes(WINDOW_BYTES * 2)))
            await until(lambda: house.process(box).most_waiting >= WINDOW_BYTES)
            await house.disable(name)
            assert await closing_of(socket) == CLOSED_UNKNOWN
            await until(lambda: HANGUP in house.process(box).signals)
            await asyncio.gather(sending, return_exceptions=True)


async def test_a_command_goes_with_the_session_that_it_was_asked_by(house: House) -> None:
    name = await house.newcomer()
    async with house.signed_in(name) as page:
        box = await new_box(page, name)
        exec_path = f"/sandboxes/{box}/exec"
        headers = {"X-Crucible-CSRF": page.csrf}
        body = {"argv": ["deaf"]}
        async with reading(
            page.client, "POST", f"{exec_path}/stream", json=body, headers=headers
        ) as reader:
            await reader.until("output")
            streamed = house.process(box)
            waiting = asyncio.ensure_future(page.ask("POST", exec_path, json=body))
            await until(lambda: house.process(box) is not streamed)
            await house.disable(name)
            assert await reader.end() == ENDED
        refused = await waiting
        assert (refused.status_code, refused.json()["code"]) == (401, ENDED)
        for process in house.backend.machines[box].processes:
            await until(lambda process=process: HANGUP in process.signals)  # type: ignore[misc]


async def test_a_changed_password_ends_all_but_where_it_was_changed(house: House) -> None:
    name = await house.newcomer()
    async with house.signed_in(name) as here, house.signed_in(name) as there:
        session = await new_session(here)
        async with following(here, session) as stays, following(there, session) as goes:
            fields = {"old": PASSWORD, "new": f"{PASSWORD} staple"}
            answer = await here.ask("POST", "/auth/password", json=fields)
            assert answer.status_code == 204
            assert await goes.end() == ENDED
            house.model.lines.append(Say(text="Yes."))
            await here.ask("POST", f"/sessions/{session}/generate", json={"prompt": "There?"})
            await stays.until("turn-ended")


async def test_a_browser_that_is_signed_out_from_another_is_cut_off(house: House) -> None:
    name = await house.newcomer()
    async with house.signed_in(name) as here, house.signed_in(name) as there:
        session = await new_session(here)
        async with following(there, session) as goes:
            found = (await here.ask("GET", "/auth/browsers")).json()["items"]
            (id,) = [one["id"] for one in found if not one["is_this"]]
            assert (await here.ask("DELETE", f"/auth/browsers/{id}")).status_code == 204
            assert await goes.end() == ENDED


async def test_a_token_that_is_revoked_ends_its_streams_and_no_others(house: House) -> None:
    server = house.server
    first, text = create_token(server.store, "first", scope=Scope.RUN)
    _, another = create_token(server.store, "another", scope=Scope.RUN)
    async with (
        httpx.AsyncClient(base_url=server.url, headers={"X-API-Key": text}, timeout=120) as client,
        httpx.AsyncClient(
            base_url=server.url, headers={"X-API-Key": another}, timeout=120
        ) as other,
        reading(client, "GET", "/events/stream") as goes,
        reading(other, "GET", "/events/stream") as stays,
        server.local() as owner,
    ):
        assert (await owner.delete(f"/api/v1/tokens/{first.id}")).status_code == 204
        assert await goes.end() == ENDED
        name = await house.newcomer()
        async with house.signed_in(name) as page:
            await new_box(page, name)
        await stays.until("create")


async def test_one_who_administers_no_more_loses_what_was_opened_as_one(house: House) -> None:
    name = await house.newcomer()
    path = f"/users/{house.ids[name]}"
    await house.admin.ask("PATCH", path, json={"role": "admin"})
    async with house.signed_in(name) as page:
        async with reading(page.client, "GET", "/events/stream") as goes:
            await house.admin.ask("PATCH", path, json={"role": "user"})
            assert await goes.end() == ENDED
        # They are signed in all the same.
        async with reading(page.client, "GET", "/events/stream") as stays:
            await house.admin.ask("PATCH", path, json={"plan": "dev"})
            await new_box(page, name)
            await stays.until("create")


async def test_what_another_program_ends_is_noticed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command line does it: straight in the database."""
    monkeypatch.setattr(visits, "LOOK_EVERY_S", 0.05)
    name = await house.newcomer()
    home = house.server.home
    database, store = own_database(home), Store(home)
    people = OpenPeople(database)
    # The timer of the requests before, which were to find nothing.
    await house.server.domain.visits.close()
    house.server.domain.visits = visits.Visits(house.server.domain._still_good)
    try:
        async with (
            house.signed_in(name) as page,
            house.server.client(Scope.RUN) as client,
            reading(page.client, "GET", "/events/stream") as users,
            reading(client, "GET", "/events/stream") as tokens,
        ):
            await change(people, store, house.ids[name], is_disabled=True)
            assert await users.end() == ENDED
            revoke_token(store, list_tokens(store)[-1].id)
            assert await tokens.end() == ENDED
    finally:
        people.close()
        database.close()
        store.close()


async def test_a_ticket_is_void_with_the_session_that_it_was_given_to(house: House) -> None:
    name = await house.newcomer()
    async with house.signed_in(name) as page:
        box = await new_box(page, name)
        told = (await page.ask("POST", f"/sandboxes/{box}/terminal/tickets")).json()
        await page.sign("sign-out")
        with pytest.raises(InvalidStatus) as refused:
            async with socket_at(house.server, told):
                pass
        assert refused.value.response.status_code == 401


async def test_what_opens_one_sandbox_opens_nothing_when_its_user_is_disabled(
    house: House,
) -> None:
    name = await house.newcomer()
    async with house.signed_in(name) as page:
        token = (await page.ask("POST", "/tokens", json={"name": "key"})).json()["token"]
        async with httpx.AsyncClient(base_url=f"{house.server.url}/e2b", timeout=120) as client:
            body = {"templateID": "base", "allow_internet_access": False}
            made = await client.post("/sandboxes", json=body, headers={"X-API-Key": token})
            assert made.status_code == 201, made.text
            inside = {
                "E2b-Sandbox-Id": made.json()["sandboxID"],
                "X-Access-Token": made.json()["envdAccessToken"],
            }
            query = {"path": "/etc/passwd"}
            assert (await client.get("/files", params=query, headers=inside)).status_code == 200
            await house.disable(name)
            assert (await client.get("/files", params=query, headers=inside)).status_code == 401


class _Line:
    """A connection as the server has it, of which a test plays the other end."""

    def __init__(self, kind: str) -> None:
        self.sent: list[Any] = []
        state = {"caller": owner_caller(), "request_id": "r"}
        scope = {"type": kind, "headers": [], "state": state}
        self.passage = Passage(scope, self._receive, self._send, "r", problem)

    async def _receive(self) -> Any:
        return await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


async def test_a_download_that_is_cut_off_never_looks_whole(run: Run) -> None:
    line = _Line("http")
    await line.passage.send({"type": "http.response.start", "status": 200, "headers": []})
    await line.passage.send({"type": "http.response.body", "body": b"a", "more_body": True})
    line.passage.end(CredentialEnded())
    await line.passage.send({"type": "http.response.body", "body": b"b", "more_body": True})
    await line.passage.send({"type": "http.response.body", "body": b"", "more_body": False})
    await line.passage.leave()
    assert [one.get("body") for one in line.sent] == [None, b"a"]


async def test_half_a_body_is_not_taken_for_a_whole_one(run: Run) -> None:
    line = _Line("http")
    reading = asyncio.ensure_future(line.passage.receive())
    await asyncio.sleep(0)
    line.passage.end(CredentialEnded())
    with pytest.raises(CredentialEnded):
        await reading
    await line.passage.leave()
    assert [one.get("status") for one in line.sent] == [401, None]


async def test_a_socket_says_nothing_more_but_that_it_is_closed(run: Run) -> None:
    line = _Line("websocket")
    reading = asyncio.ensure_future(line.passage.receive())
    await asyncio.sleep(0)
    line.passage.end(CredentialEnded())
    assert await reading == {"type": "websocket.disconnect", "code": CLOSED_UNKNOWN}
    with pytest.raises(ConnectionResetError):
        await line.passage.send({"type": "websocket.send", "bytes": b"secret"})
    await line.passage.send({"type": "websocket.close", "code": 1000})
    await line.passage.leave()
    assert line.sent == [{"type": "websocket.close", "code": CLOSED_UNKNOWN, "reason": ENDED}]
