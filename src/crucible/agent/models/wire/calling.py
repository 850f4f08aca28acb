"""One call of a provider: opened, listened to, closed. Nothing of it is retried here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from pydantic_ai.exceptions import AgentRunError, UserError

from crucible.agent.messages import AssistantMessage
from crucible.agent.models.access import Access, Waits
from crucible.agent.models.base import Answered, ModelEvent, ModelRef, Request
from crucible.agent.models.catalog import Figures
from crucible.agent.models.wire.clients import make_http, make_model
from crucible.agent.models.wire.faults import translate
from crucible.agent.models.wire.incoming import Listening, parts_of, stop_of, usage_of
from crucible.agent.models.wire.outgoing import messages_of, parameters_of, settings_of
from crucible.errors import BadAnswer, ModelError, ModelTimedOut

# What may come of bytes that nobody promised.
_FOREIGN = (
    AgentRunError,
    UserError,
    httpx2.HTTPError,
    httpx2.StreamError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    AssertionError,
    RecursionError,
)


class Caller:
    """Holds the connections to one provider for one model."""

    def __init__(self, ref: ModelRef, access: Access, figures: Figures, waits: Waits) -> None:
        self._ref = ref
        self._access = access
        self._figures = figures
        self._waits = waits
        self._http = make_http(access, waits)
        self._model = make_model(ref.name, access, figures, self._http)

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        began = time.monotonic()
        failure: ModelError
        try:
            async for event in self._answer(request, began):
                yield event
            return
        except TimeoutError:
            failure = ModelTimedOut(
                f"{self._ref} was still answering after {self._waits.whole_s:g} s"
            )
        except _FOREIGN as error:
            failure = translate(error, self._ref, self._access)
        # Outside of the handler: what it was caused by has the request's head in it, and so the key.
        raise failure

    async def close(self) -> None:
        await self._http.aclose()

    async def _answer(self, request: Request, began: float) -> AsyncIterator[ModelEvent]:
        provider = self._model.system
        deadline = asyncio.get_running_loop().time() + self._waits.whole_s
        opening = self._model.request_stream(
            messages_of(request, provider),
            settings_of(request, self._figures, self._access.wire),
            parameters_of(request, self._figures),
        )
        async with asyncio.timeout_at(deadline):
            stream = await opening.__aenter__()
        try:
            listening = Listening()
            events = aiter(stream)
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        event = await anext(events)
                except StopAsyncIteration:
                    break
                for made in listening.events(event):
                    yield made
            yield self._answered(stream, provider, began)
        finally:
            await opening.__aexit__(None, None, None)

    def _answered(self, stream: Any, provider: str, began: float) -> Answered:
        response = stream.get()
        if response.finish_reason is None:
            raise BadAnswer(f"The answer of {self._ref} ended before its end")
        name = stream.model_name or self._ref.name
        message = AssistantMessage(
            parts=parts_of(response, provider),
            model=str(self._ref),
            is_whole=response.finish_reason != "length",
        )
        return Answered(
            message=message,
            usage=usage_of(stream.usage),
            stop=stop_of(response, message),
            model=ModelRef(provider=self._ref.provider, name=str(name)),
            duration_s=time.monotonic() - began,
        )
