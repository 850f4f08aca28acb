"""A session of the agent: asked, followed, stopped, and gone when its block ends."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import builtins
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote

from crucible_client._sync.chat import Chat, follow
from crucible_client._sync.http import Http
from crucible_client._sync.waiting import finish
from crucible_client.agent import (
    Answer,
    Approval,
    ContextUsage,
    Decision,
    Intent,
    SessionInfo,
    SessionOptions,
    TurnEvent,
    made_of,
    schema_of,
)
from crucible_client.errors import SessionMissing
from crucible_client.reading import Reader
from crucible_client.records import Budget

# A turn may wait for a person.
TURN_S = 3600.0
DESTROY_S = 300.0


class Session:
    """Made by a client's `create_session`, or found by its `session`. A turn goes on when nobody watches it."""

    def __init__(self, http: Http, info: SessionInfo) -> None:
        self.info = info
        self._http = http
        self._path = f"/sessions/{quote(info.id, safe='')}"

    @property
    def id(self) -> str:
        return self.info.id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(SessionMissing):
            finish(self.destroy)

    def generate(
        self, prompt: str, *, intent: Intent | None = None, timeout_s: float = TURN_S
    ) -> Answer:
        """A whole turn. What stopped it, if something did, is in the answer; `check` raises it."""
        asked = {"prompt": prompt, "intent": intent}
        return self._answer("/generate", asked, timeout_s)

    def stream(self, prompt: str, *, intent: Intent | None = None) -> Generator[TurnEvent]:
        """The events of a turn, its end last. Connections that are lost on the way are made anew."""
        asked = {"prompt": prompt, "intent": intent}
        with closing(self._turn("/stream", asked)) as events:
            for event in events:
                yield event

    def generate_object(
        self,
        prompt: str,
        schema: Any,
        *,
        max_repairs: int = 2,
        timeout_s: float = TURN_S,
    ) -> Any:
        """An object that fits the schema: a JSON Schema, or a class of pydantic, of which it is then one.

        Raises what stopped it, such as an object that does not fit after all repairs.
        """
        asked = {"prompt": prompt, "schema": schema_of(schema), "max_repairs": max_repairs}
        answer = self._answer("/object", asked, timeout_s)
        return made_of(schema, answer.check().object)

    def stream_object(
        self, prompt: str, schema: Any, *, max_repairs: int = 2
    ) -> Generator[TurnEvent]:
        """Events as of `stream`; those of kind `object` have what there is of it so far."""
        asked = {"prompt": prompt, "schema": schema_of(schema), "max_repairs": max_repairs}
        with closing(self._turn("/object/stream", asked)) as events:
            for event in events:
                yield event

    def events(self, after: int = 0) -> Generator[TurnEvent]:
        """All that the session told after that number, and then what it tells, without an end."""
        params = {"after": after}
        with closing(self._http.events("GET", f"{self._path}/events", params=params)) as all:
            for event in all:
                yield TurnEvent.read(event)

    def cancel(self) -> bool:
        """Stops the model and kills what runs in the sandbox. Tells whether there was a turn."""
        return Reader(self._http.call("POST", f"{self._path}/cancel")).claim("cancelled")

    def begin(self, prompt: str, *, intent: Intent | None = None) -> Chat:
        """A turn that has begun when this returns, to be followed, waited for or stopped later, or by others."""
        asked = {"prompt": prompt, "intent": intent}
        told = self._http.call("POST", f"{self._path}/turns", json=asked, is_keyed=True)
        return Chat(self._http, told)

    def resume(self) -> Chat:
        """Goes on with what an interrupted, cancelled or failed turn left. Raises NothingToResume."""
        return Chat(self._http, self._http.call("POST", f"{self._path}/resume"))

    def refresh(self) -> SessionInfo:
        self.info = SessionInfo.read(self._http.call("GET", self._path))
        return self.info

    def configure(self, **changes: Unpack[SessionOptions]) -> SessionInfo:
        self.info = SessionInfo.read(self._http.call("PATCH", self._path, json=changes))
        return self.info

    def get_history(self) -> builtins.list[Mapping[str, Any]]:
        """The messages, the oldest first."""
        told = self._http.call("GET", f"{self._path}/history")
        return [*Reader(told).items("items")]

    def get_context_usage(self) -> ContextUsage:
        return ContextUsage.read(self._http.call("GET", f"{self._path}/context"))

    def get_budget(self) -> Budget:
        """What it may spend, and has spent."""
        return Budget.read(self._http.call("GET", f"{self._path}/budget"))

    def pin(self, message: int, *, pinned: bool = True) -> None:
        """The message of that place in the history is kept word for word when it is compacted."""
        asked = {"message": message, "pinned": pinned}
        self._http.call("POST", f"{self._path}/pin", json=asked)

    def clear(self) -> None:
        """Forgets the history; the sandbox stays as it is."""
        self._http.call("POST", f"{self._path}/clear")

    def compact(self) -> ContextUsage:
        """Puts a summary in the place of what is old."""
        told = self._http.call("POST", f"{self._path}/compact", timeout_s=TURN_S)
        return ContextUsage.read(told)

    def approvals(self) -> Sequence[Approval]:
        """What waits for a person."""
        told = self._http.call("GET", "/approvals", params={"session": self.id})
        return [Approval.read(one) for one in Reader(told).items("items")]

    def answer(
        self,
        approval: Approval | str,
        decision: Decision,
        *,
        arguments: Mapping[str, Any] | None = None,
        note: str = "",
    ) -> None:
        """`edit` needs the new arguments; `always` allows the same call for the rest of the session."""
        id = approval if isinstance(approval, str) else approval.id
        given = {"decision": decision, "note": note}
        asked = given if arguments is None else {**given, "arguments": dict(arguments)}
        self._http.call("POST", f"/approvals/{quote(id, safe='')}", json=asked)

    def rewind(self, steps: int = 1) -> SessionInfo:
        """Back to where sandbox and history were so many steps ago, where checkpoints were asked for."""
        told = self._http.call(
            "POST", f"{self._path}/rewind", json={"steps": steps}, timeout_s=DESTROY_S
        )
        self.info = SessionInfo.read(told)
        return self.info

    def branch(self, step: int) -> Self:
        """Another session that begins before that step, with a copy of the sandbox as it was then."""
        told = self._http.call(
            "POST", f"{self._path}/branch", params={"step": step}, timeout_s=DESTROY_S
        )
        return type(self)(self._http, SessionInfo.read(told))

    def destroy(self) -> None:
        """With its sandbox. What it did stays in the ledger."""
        self._http.call("DELETE", self._path, timeout_s=DESTROY_S)

    def _answer(self, path: str, asked: dict[str, Any], timeout_s: float) -> Answer:
        told = self._http.call(
            "POST", self._path + path, json=asked, is_keyed=True, timeout_s=timeout_s
        )
        return Answer.read(told)

    def _turn(self, path: str, asked: dict[str, Any]) -> Generator[TurnEvent]:
        first = self._http.events("POST", self._path + path, json=asked)
        with closing(follow(self._http, self._path, first)) as events:
            for event in events:
                yield event
