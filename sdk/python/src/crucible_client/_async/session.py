"""A session of the agent: asked, followed, stopped, and gone when its block ends."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote

from crucible_client._async.chat import AsyncChat, follow
from crucible_client._async.http import AsyncHttp
from crucible_client._async.waiting import finish
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


class AsyncSession:
    """Made by a client's `create_session`, or found by its `session`. A turn goes on when nobody watches it."""

    def __init__(self, http: AsyncHttp, info: SessionInfo) -> None:
        self.info = info
        self._http = http
        self._path = f"/sessions/{quote(info.id, safe='')}"

    @property
    def id(self) -> str:
        return self.info.id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(SessionMissing):
            await finish(self.destroy)

    async def generate(
        self, prompt: str, *, intent: Intent | None = None, timeout_s: float = TURN_S
    ) -> Answer:
        """A whole turn. What stopped it, if something did, is in the answer; `check` raises it."""
        asked = {"prompt": prompt, "intent": intent}
        return await self._answer("/generate", asked, timeout_s)

    async def stream(
        self, prompt: str, *, intent: Intent | None = None
    ) -> AsyncGenerator[TurnEvent]:
        """The events of a turn, its end last. Connections that are lost on the way are made anew."""
        asked = {"prompt": prompt, "intent": intent}
        async with aclosing(self._turn("/stream", asked)) as events:
            async for event in events:
                yield event

    async def generate_object(
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
        answer = await self._answer("/object", asked, timeout_s)
        return made_of(schema, answer.check().object)

    async def stream_object(
        self, prompt: str, schema: Any, *, max_repairs: int = 2
    ) -> AsyncGenerator[TurnEvent]:
        """Events as of `stream`; those of kind `object` have what there is of it so far."""
        asked = {"prompt": prompt, "schema": schema_of(schema), "max_repairs": max_repairs}
        async with aclosing(self._turn("/object/stream", asked)) as events:
            async for event in events:
                yield event

    async def events(self, after: int = 0) -> AsyncGenerator[TurnEvent]:
        """All that the session told after that number, and then what it tells, without an end."""
        params = {"after": after}
        async with aclosing(self._http.events("GET", f"{self._path}/events", params=params)) as all:
            async for event in all:
                yield TurnEvent.read(event)

    async def cancel(self) -> bool:
        """Stops the model and kills what runs in the sandbox. Tells whether there was a turn."""
        return Reader(await self._http.call("POST", f"{self._path}/cancel")).claim("cancelled")

    async def begin(self, prompt: str, *, intent: Intent | None = None) -> AsyncChat:
        """A turn that has begun when this returns, to be followed, waited for or stopped later, or by others."""
        asked = {"prompt": prompt, "intent": intent}
        told = await self._http.call("POST", f"{self._path}/turns", json=asked, is_keyed=True)
        return AsyncChat(self._http, told)

    async def resume(self) -> AsyncChat:
        """Goes on with what an interrupted, cancelled or failed turn left. Raises NothingToResume."""
        return AsyncChat(self._http, await self._http.call("POST", f"{self._path}/resume"))

    async def refresh(self) -> SessionInfo:
        self.info = SessionInfo.read(await self._http.call("GET", self._path))
        return self.info

    async def configure(self, **changes: Unpack[SessionOptions]) -> SessionInfo:
        self.info = SessionInfo.read(await self._http.call("PATCH", self._path, json=changes))
        return self.info

    async def get_history(self) -> builtins.list[Mapping[str, Any]]:
        """The messages, the oldest first."""
        told = await self._http.call("GET", f"{self._path}/history")
        return [*Reader(told).items("items")]

    async def get_context_usage(self) -> ContextUsage:
        return ContextUsage.read(await self._http.call("GET", f"{self._path}/context"))

    async def get_budget(self) -> Budget:
        """What it may spend, and has spent."""
        return Budget.read(await self._http.call("GET", f"{self._path}/budget"))

    async def pin(self, message: int, *, pinned: bool = True) -> None:
        """The message of that place in the history is kept word for word when it is compacted."""
        asked = {"message": message, "pinned": pinned}
        await self._http.call("POST", f"{self._path}/pin", json=asked)

    async def clear(self) -> None:
        """Forgets the history; the sandbox stays as it is."""
        await self._http.call("POST", f"{self._path}/clear")

    async def compact(self) -> ContextUsage:
        """Puts a summary in the place of what is old."""
        told = await self._http.call("POST", f"{self._path}/compact", timeout_s=TURN_S)
        return ContextUsage.read(told)

    async def approvals(self) -> Sequence[Approval]:
        """What waits for a person."""
        told = await self._http.call("GET", "/approvals", params={"session": self.id})
        return [Approval.read(one) for one in Reader(told).items("items")]

    async def answer(
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
        await self._http.call("POST", f"/approvals/{quote(id, safe='')}", json=asked)

    async def rewind(self, steps: int = 1) -> SessionInfo:
        """Back to where sandbox and history were so many steps ago, where checkpoints were asked for."""
        told = await self._http.call(
            "POST", f"{self._path}/rewind", json={"steps": steps}, timeout_s=DESTROY_S
        )
        self.info = SessionInfo.read(told)
        return self.info

    async def branch(self, step: int) -> Self:
        """Another session that begins before that step, with a copy of the sandbox as it was then."""
        told = await self._http.call(
            "POST", f"{self._path}/branch", params={"step": step}, timeout_s=DESTROY_S
        )
        return type(self)(self._http, SessionInfo.read(told))

    async def destroy(self) -> None:
        """With its sandbox. What it did stays in the ledger."""
        await self._http.call("DELETE", self._path, timeout_s=DESTROY_S)

    async def _answer(self, path: str, asked: dict[str, Any], timeout_s: float) -> Answer:
        told = await self._http.call(
            "POST", self._path + path, json=asked, is_keyed=True, timeout_s=timeout_s
        )
        return Answer.read(told)

    async def _turn(self, path: str, asked: dict[str, Any]) -> AsyncGenerator[TurnEvent]:
        first = self._http.events("POST", self._path + path, json=asked)
        async with aclosing(follow(self._http, self._path, first)) as events:
            async for event in events:
                yield event
