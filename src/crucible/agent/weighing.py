"""What requests of sessions weigh. Each repeats the one before it and adds a little: only that little is weighed."""

from __future__ import annotations

from dataclasses import dataclass

from crucible.agent.messages import Message, Picture, ToolMessage, UserMessage
from crucible.agent.models.base import Request
from crucible.agent.tokens import (
    MOST_PER_MESSAGE,
    MOST_PER_REQUEST,
    Weight,
    frame_of,
    weigh_frame,
    weigh_message,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """`frame` is all that is no message: instructions, tools, schema. `pictures` are those that messages name."""

    request: Request
    frame: Weight
    messages: Weight
    pictures: tuple[Picture, ...]

    @property
    def estimated(self) -> int:
        return self.frame.estimated + self.messages.estimated


class Scales:
    """Of one engine."""

    def __init__(self) -> None:
        self._last: dict[str, Weighed] = {}

    def weigh(self, session: str, request: Request) -> Weighed:
        """For a request that continues the session's conversation."""
        last = self._last.get(session)
        weighed = weigh(request) if last is None else _weigh_on(last, request)
        self._last[session] = weighed
        return weighed

    def forget(self, session: str) -> None:
        self._last.pop(session, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A request, and how many tokens its model has counted in it."""

    weighed: Weighed
    input_tokens: int


def worst_case(weighed: Weighed, known: Counted | None = None) -> int:
    """What no model counts more than. `known` is an earlier call of the same model, which tells what its part has."""
    whole = MOST_PER_REQUEST + weighed.frame.most + weighed.messages.most
    if known is None or not _continues(weighed.request, known.weighed.request):
        return whole
    frame = 0 if _is_framed_alike(weighed.request, known.weighed.request) else weighed.frame.most
    fresh = MOST_PER_MESSAGE + weighed.messages.most - known.weighed.messages.most
    return min(whole, known.input_tokens + frame + fresh)


def weigh(request: Request) -> Weighed:
    """For a request that continues nothing."""
    return Weighed(
        request=request,
        frame=weigh_frame(request),
        messages=sum(map(weigh_message, request.messages), Weight()),
        pictures=_pictures(request.messages),
    )


def _weigh_on(last: Weighed, request: Request) -> Weighed:
    if not _continues(request, last.request):
        return weigh(request)
    fresh = request.messages[len(last.request.messages) :]
    return Weighed(
        request=request,
        frame=last.frame if _is_framed_alike(request, last.request) else weigh_frame(request),
        messages=sum(map(weigh_message, fresh), last.messages),
        pictures=(*last.pictures, *_pictures(fresh)),
    )


def _continues(request: Request, before: Request) -> bool:
    # Two of one place are mostly the very same object, which compares at once.
    return request.messages[: len(before.messages)] == before.messages


def _is_framed_alike(request: Request, other: Request) -> bool:
    return frame_of(request) == frame_of(other)


def _pictures(messages: tuple[Message, ...]) -> tuple[Picture, ...]:
    return tuple(picture for message in messages for picture in _pictures_of(message))


def _pictures_of(message: Message) -> tuple[Picture, ...]:
    match message:
        case UserMessage():
            return message.pictures
        case ToolMessage():
            return tuple(picture for result in message.results for picture in result.pictures)
        case _:
            return ()
