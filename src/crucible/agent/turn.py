"""A turn as its caller sees it: it lives in the engine, and can be waited for by anybody, or by nobody."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from crucible.agent.events import End
from crucible.agent.facts import Answer, Intent
from crucible.agent.messages import AssistantMessage, Part, Text, Thinking, ToolResult
from crucible.agent.structured import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What a turn came to: how it ended, and the object if one was asked for."""

    end: End
    value: Any = None


class Turn:
    """`first_event` is the number of its first event: `events(session, after=first_event - 1)` tells all of it.

    `said` is what the user typed for it, empty where it goes on with what was there.
    """

    def __init__(
        self,
        *,
        session: str,
        number: int,
        intent: Intent,
        first_event: int,
        shape: Shape | None,
        said: str = "",
    ) -> None:
        self.session = session
        self.number = number
        self.intent = intent
        self.first_event = first_event
        self.shape = shape
        self.said = said
        self.draft = Draft()
        self.results: dict[str, ToolResult] = {}
        self.is_cancelled = False
        self.is_left = False
        self.work: asyncio.Task[Came] | None = None
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        return self._answer.done()

    async def wait(self) -> Answer:
        """Who is cancelled while waiting leaves the turn as it is."""
        return await asyncio.shield(self._answer)

    def cancel(self) -> None:
        """The user wants its end."""
        self.is_cancelled = True
        self._stop()

    def leave(self, *, for_another: bool) -> None:
        """This process ends. `for_another`: what is kept of it stays open, and the next process goes on with it."""
        self.is_left = for_another
        self._stop()

    def _stop(self) -> None:
        if self.work is not None:
            self.work.cancel()

    def end(self, answer: Answer) -> None:
        if not self._answer.done():
            self._answer.set_result(answer)


class Draft:
    """What came of a message whose end has not come yet."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thinking: list[str] = []
        self.length = 0

    def clear(self) -> None:
        self.length = 0
        self._text.clear()
        self._thinking.clear()

    def add_text(self, text: str) -> None:
        self.length += len(text)
        self._text.append(text)

    def add_thinking(self, text: str) -> None:
        self._thinking.append(text)

    def message(self, model: str) -> AssistantMessage | None:
        """None if there is nothing to read. Thoughts are left out: no provider takes back half of one."""
        text = "".join(self._text)
        if not text.strip():
            return None
        parts: tuple[Part, ...] = (Text(text=text),)
        return AssistantMessage(parts=parts, model=model, is_whole=False)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def thought(self) -> Thinking | None:
        text = "".join(self._thinking)
        return Thinking(text=text) if text else None
