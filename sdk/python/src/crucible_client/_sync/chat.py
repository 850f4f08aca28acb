"""A turn under way in a session or a conversation: followed, waited for, stopped. It goes on when nobody watches it."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any
from urllib.parse import quote

from crucible_client._sync.http import TRIES, Http
from crucible_client._sync.waiting import sleep
from crucible_client.agent import Answer, TurnEvent
from crucible_client.errors import BadAnswer, ConnectionLost
from crucible_client.events import Event
from crucible_client.reading import Reader


class Chat:
    """Made by a client's `chat`, by `edit` and `retry` of its conversations, and by `begin` and `resume` of a session,
    whose id is then that of the conversation."""

    def __init__(self, http: Http, told: Any) -> None:
        reader = Reader(told)
        self.conversation = reader.text("session" if "session" in told else "conversation")
        self.turn = reader.whole("turn")
        self._after = reader.whole("after")
        self._http = http
        self._path = f"/sessions/{quote(self.conversation, safe='')}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.conversation!r}, turn={self.turn})"

    def events(self) -> Generator[TurnEvent]:
        """All of the turn from its beginning, its end last, however often it is asked."""
        first = turn_events(self._http, self._path, self.turn, self._after)
        following = follow(self._http, self._path, first, turn=self.turn, after=self._after)
        with closing(following) as events:
            for event in events:
                yield event

    def wait(self) -> Answer:
        """What the turn came to, when it has ended. `check` of it raises what stopped it."""
        calls: list[dict[str, Any]] = []
        with closing(self.events()) as events:
            for event in events:
                if event.kind == "call" and event.data.get("state") == "asked":
                    calls.append(_call(event))
                elif event.is_last:
                    return Answer.read({**event.data, "turn": self.turn, "calls": calls})
        raise BadAnswer("The turn ended without saying how")

    def cancel(self) -> bool:
        """Stops the model and kills what runs in the sandbox. Tells whether there was a turn."""
        return Reader(self._http.call("POST", f"{self._path}/cancel")).claim("cancelled")


def follow(
    http: Http,
    path: str,
    first: Generator[Event],
    *,
    turn: int | None = None,
    after: int = 0,
) -> Generator[TurnEvent]:
    """The events of a turn, its end last. Connections that are lost are made anew once the turn is known."""
    following, attempt = first, 0
    while True:
        try:
            with closing(following) as events:
                for event in events:
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
            sleep(0.2 * attempt)
        following = turn_events(http, path, turn, after)


def turn_events(http: Http, path: str, turn: int, after: int) -> Generator[Event]:
    return http.events("GET", f"{path}/events", params={"turn": turn}, last=str(after))


def _call(event: TurnEvent) -> dict[str, Any]:
    return {
        "id": event.data.get("call"),
        "name": event.data.get("tool"),
        "arguments": event.data.get("arguments"),
    }
