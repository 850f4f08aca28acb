"""A conversation as it is kept: our own words for it, of no provider and of no library.

What a provider needs back unchanged (a signature of its thinking, say) is carried and never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crucible.errors import StateDamaged

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """What a model thought aloud. `carried` is what its provider wants to see again with it."""

    text: str
    carried: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """`arguments` are as the model wrote them: text that should be a JSON object, and may be anything."""

    id: str
    name: str
    arguments: str


Part = Text | Thinking | ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`blob` names its bytes in the ledger."""

    media_type: str
    blob: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """`is_pinned` is kept word for word when the conversation is compacted.

    `turn` is the one that began with it; 0 for what the engine itself says in a user's place.
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    is_pinned: bool = False
    turn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """`is_whole` is false for one that was cut short: by a cancel, a crash or a limit."""

    parts: tuple[Part, ...]
    model: str = ""
    is_whole: bool = True
    is_pinned: bool = False

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What the model reads of a call. `blob` names the whole of it in the ledger where the text was cut."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    pictures: tuple[Picture, ...] = ()
    blob: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage:
    """The answers to all calls of the message before it, in the order of the calls."""

    results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Stands for `replaced` messages that were compacted."""

    text: str
    replaced: int


Message = UserMessage | AssistantMessage | ToolMessage | Summary
Role = Literal["user", "assistant", "tool", "summary"]


def to_json(message: Message) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {
                "role": "user",
                "text": message.text,
                "pictures": [_picture(one) for one in message.pictures],
                "pinned": message.is_pinned,
                "turn": message.turn,
            }
        case AssistantMessage():
            return {
                "role": "assistant",
                "parts": [_part(one) for one in message.parts],
                "model": message.model,
                "whole": message.is_whole,
                "pinned": message.is_pinned,
            }
        case ToolMessage():
            return {"role": "tool", "results": [_result(one) for one in message.results]}
        case Summary():
            return {"role": "summary", "text": message.text, "replaced": message.replaced}


def from_json(value: Any) -> Message:
    """Raises StateDamaged for what `to_json` never wrote."""
    try:
        return _message(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateDamaged(f"A kept message cannot be read: {error!r}") from error


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            return {"type": "thinking", "text": part.text, "carried": dict(part.carried)}
        case ToolCall():
            return {"type": "call", "id": part.id, "name": part.name, "arguments": part.arguments}


def _picture(picture: Picture) -> dict[str, str]:
    return {"media_type": picture.media_type, "blob": picture.blob}


def _result(result: ToolResult) -> dict[str, Any]:
    return {
        "call_id": result.call_id,
        "name": result.name,
        "text": result.text,
        "error": result.is_error,
        "pictures": [_picture(one) for one in result.pictures],
        "blob": result.blob,
    }


def _message(value: Any) -> Message:
    role = value["role"]
    if role == "user":
        return UserMessage(
            text=_text(value["text"]),
            pictures=_pictures(value["pictures"]),
            is_pinned=bool(value["pinned"]),
            turn=int(value.get("turn", 0)),
        )
    if role == "assistant":
        return AssistantMessage(
            parts=tuple(_read_part(one) for one in value["parts"]),
            model=_text(value["model"]),
            is_whole=bool(value["whole"]),
            is_pinned=bool(value["pinned"]),
        )
    if role == "tool":
        return ToolMessage(results=tuple(_read_result(one) for one in value["results"]))
    if role == "summary":
        return Summary(text=_text(value["text"]), replaced=int(value["replaced"]))
    raise ValueError(f"a message of {role!r}")


def _read_part(value: Any) -> Part:
    kind = value["type"]
    if kind == "text":
        return Text(text=_text(value["text"]))
    if kind == "thinking":
        return Thinking(text=_text(value["text"]), carried=dict(value["carried"]))
    if kind == "call":
        return ToolCall(
            id=_text(value["id"]), name=_text(value["name"]), arguments=_text(value["arguments"])
        )
    raise ValueError(f"a part of {kind!r}")


def _read_result(value: Any) -> ToolResult:
    return ToolResult(
        call_id=_text(value["call_id"]),
        name=_text(value["name"]),
        text=_text(value["text"]),
        is_error=bool(value["error"]),
        pictures=_pictures(value["pictures"]),
        blob=_text(value["blob"]),
    )


def _pictures(values: Sequence[Any]) -> tuple[Picture, ...]:
    return tuple(
        Picture(media_type=_text(one["media_type"]), blob=_text(one["blob"])) for one in values
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text should be")
    return value
