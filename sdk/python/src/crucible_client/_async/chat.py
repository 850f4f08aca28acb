"""A turn under way in a session or a conversation: followed, waited for, stopped. It goes on when nobody watches it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from crucible_client._async.http import TRIES, AsyncHttp
from crucible_client._async.waiting import sleep
from crucible_client.agent import Answer, TurnEvent
from crucible_client.errors import BadAnswer, ConnectionLost
from crucible_client.events import Event
from crucible_client.reading import Reader


class AsyncChat:
    """Made by a client's `chat`, by `edit` and `retry` of its conversations, and by `begin` and `resume` of a session,
    whose id is then that of the conversation."""

    def __init__(self, http: AsyncHttp, told: Any) -> None:
        reader = Reader(told)
        self.conversation = reader.text("session" if "session" in told else "conversation")
        self.turn = reader.whole("turn")
        self._after = reader.whole("after")
        self._http = http
        self._path = f"/sessions/{quote(self.conversation, safe='')}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.conversation!r}, turn={self.turn})"

    async def events(self) -> AsyncGenerator[TurnEvent]:
        """All of the turn from its beginning, its end last, however often it is asked."""
        first = turn_events(self._http, self._path, self.turn, self._after)
        following = follow(self._http, self._path, first, turn=self.turn, after=self._after)
        async with aclosing(following) as events:
            async for event in events:
                yield event

    async def wait(self) -> Answer:
        """What the turn came to, when it has ended. `check` of it raises what stopped it."""
        calls: list[dict[str, Any]] = []
        async with aclosing(self.events()) as events:
            async for event in events:
                if event.kind == "call" and event.data.get("state") == "asked":
                    calls.append(_call(event))
                elif event.is_last:
                    return Answer.read({**event.data, "turn": self.turn, "calls": calls})
        raise BadAnswer("The turn ended without saying how")

    async def cancel(self) -> bool:
        """Stops the model and kills what runs in the sandbox. Tells whether there was a turn."""
        return Reader(await self._http.call("POST", f"{self._path}/cancel")).claim("cancelled")


async def follow(
    http: AsyncHttp,
    path: str,
    first: AsyncGenerator[Event],
    *,
    turn: int | None = None,
    after: int = 0,
) -> AsyncGenerator[TurnEvent]:
    """The events of a turn, its end last. Connections that are lost are made anew once the turn is known."""
    following, attempt = first, 0
    while True:
        try:
            async with aclosing(following) as events:
                async for event in events:
                    seen, attempt = TurnEvent.read(event), 0
                    turn, after = seen.turn, seen.number
                    yield seen
                    if seen.is_last:
                        return
            raise ConnectionLost("The server ended its answer before the turn had ended")
        except ConnectionLost:
            attempt += 1
            if turn is None or attempt > TRIES:
                raise
            await sleep(0.2 * attempt)
        following = turn_events(http, path, turn, after)


def turn_events(http: AsyncHttp, path: str, turn: int, after: int) -> AsyncGenerator[Event]:
    return http.events("GET", f"{path}/events", params={"turn": turn}, last=str(after))


def _call(event: TurnEvent) -> dict[str, Any]:
    return {
        "id": event.data.get("call"),
        "name": event.data.get("tool"),
        "arguments": event.data.get("arguments"),
    }
