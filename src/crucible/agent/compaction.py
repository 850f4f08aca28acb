"""Makes room in a model's context: old messages become a summary, what is pinned and what is recent stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Summary,
    ToolMessage,
    UserMessage,
)
from crucible.agent.models.base import Profile
from crucible.agent.tokens import estimate_message, estimate_messages

COMPACT_AT = 0.8
_KEPT_SHARE = 0.25
_LEAST_KEPT = 2
_LONGEST_SHOWN = 4000
_MOST_PARTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """`old` is replaced, `recent` stays; what is pinned in `old` stays, too."""

    old: tuple[Message, ...]
    recent: tuple[Message, ...]

    @property
    def pinned(self) -> tuple[Message, ...]:
        return tuple(message for message in self.old if is_pinned(message))

    @property
    def replaced(self) -> int:
        """How many messages of the conversation the summary stands for, those of summaries before it included."""
        return sum(
            message.replaced if isinstance(message, Summary) else 1
            for message in self.old
            if not is_pinned(message)
        )


def is_pinned(message: Message) -> bool:
    return isinstance(message, UserMessage | AssistantMessage) and message.is_pinned


def limit_of(profile: Profile) -> int:
    """From how many tokens on a conversation is compacted: the answer must have room, too."""
    return int(
        min(
            profile.context_tokens * COMPACT_AT,
            profile.context_tokens - min(profile.output_tokens, profile.context_tokens // 4),
        )
    )


def room_for_recent(profile: Profile) -> int:
    return int(profile.context_tokens * _KEPT_SHARE)


def choose_cut(messages: Sequence[Message], room: int) -> Cut | None:
    """Where to cut so that what stays has about `room` tokens, never between calls and their results.

    None if there is nothing to gain.
    """
    at = max(0, len(messages) - _LEAST_KEPT)
    left = room - estimate_messages(messages[at:])
    while at > 0 and (cost := estimate_message(messages[at - 1])) <= left:
        left -= cost
        at -= 1
    # A result belongs to the message with its call, and a call to the words that led to it.
    while at > 0 and isinstance(messages[at], ToolMessage):
        at -= 1
    old = tuple(messages[:at])
    if not any(not is_pinned(message) and not isinstance(message, Summary) for message in old):
        return None
    return Cut(old=old, recent=tuple(messages[at:]))


def summary_before(messages: Sequence[Message]) -> str:
    """The one that the next is to be made of."""
    return "\n\n".join(one.text for one in messages if isinstance(one, Summary))


def in_parts(messages: Sequence[Message], room_tokens: int) -> list[str]:
    """What the model folds into the summary, as much at a time as it can read: the words, long ones cut.

    The oldest are left out where there is too much even so.
    """
    parts: list[list[str]] = []
    left = 0
    for message in messages:
        if isinstance(message, Summary) or is_pinned(message):
            continue
        shown = _shown(message)
        cost = estimate_message(UserMessage(text=shown))
        if cost > room_tokens:
            shown = shown[: max(0, room_tokens - 64)] + " […]"
            cost = room_tokens
        if not parts or cost > left:
            parts.append([])
            left = room_tokens
        parts[-1].append(shown)
        left -= cost
    if len(parts) > _MOST_PARTS:
        parts = parts[-_MOST_PARTS:]
        parts[0].insert(0, "[what came before is left out]")
    return ["\n\n".join(part) for part in parts]


def joined(cut: Cut, summary: str) -> list[Message]:
    """The conversation after compacting."""
    return [Summary(text=summary, replaced=cut.replaced), *_pinned_alone(cut), *cut.recent]


def dropped_note(cut: Cut) -> str:
    """Stands for what was dropped when no summary could be had."""
    first = next((one.text for one in cut.old if isinstance(one, UserMessage)), "")
    told = f" The conversation began with: {first[:500]}" if first else ""
    return f"[{cut.replaced} earlier messages were dropped to make room.{told}]"


def _pinned_alone(cut: Cut) -> list[Message]:
    """A pinned answer without the calls in it: their results are gone."""
    kept: list[Message] = []
    for message in cut.pinned:
        if isinstance(message, AssistantMessage) and message.calls:
            from crucible.agent.messages import Text

            text = message.text or "[a message that only called tools]"
            kept.append(
                AssistantMessage(parts=(Text(text=text),), model=message.model, is_pinned=True)
            )
        else:
            kept.append(message)
    return kept


def _shown(message: Message) -> str:
    match message:
        case UserMessage():
            return f"User: {_short(message.text)}"
        case AssistantMessage():
            calls = "".join(
                f"\n[called {call.name} with {_short(call.arguments)}]" for call in message.calls
            )
            return f"Assistant: {_short(message.text)}{calls}"
        case ToolMessage():
            return "\n".join(
                f"Result of {result.name}: {_short(result.text)}" for result in message.results
            )
        case Summary():
            return f"Summary of what came before: {message.text}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + " […]"
