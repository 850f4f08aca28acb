"""What a command writes: told to watchers while it runs, within bounds, and cut for the model."""

from __future__ import annotations

import codecs
from typing import Final

from crucible.agent.models.base import Profile
from crucible.agent.session import Session
from crucible.agent.workplace import Channel

MODEL_CHARACTERS: Final = 30_000
_TOLD_BYTES: Final = 256 << 10
_TAIL: Final = 0.4
_CHARACTERS_PER_TOKEN: Final = 3


def room_for_result(profile: Profile) -> int:
    """How many characters of a result the model is shown: no more than a quarter of what a small one can read."""
    return min(MODEL_CHARACTERS, profile.context_tokens * _CHARACTERS_PER_TOKEN // 4)


def cut_for_model(text: str, blob: str, most: int = MODEL_CHARACTERS) -> tuple[str, bool]:
    """Its beginning and its end where it is too long, with a note of what is missing; and whether it was."""
    if len(text) <= most:
        return text, False
    tail = int(most * _TAIL)
    head = most - tail
    missing = len(text) - most
    kept = " They are kept whole for the user." if blob else ""
    note = (
        f"\n\n[{missing} characters in the middle are left out.{kept} "
        "Ask for less: a range of lines, a filter, a count.]\n\n"
    )
    return text[:head] + note + text[-tail:], True


class Hearing:
    """Tells the output of one call as it comes; after a bound it only says that there is more."""

    def __init__(self, session: Session, call: str) -> None:
        self._session = session
        self._call = call
        self._told = 0
        self._is_full = False
        self._decoders = {
            channel: codecs.getincrementaldecoder("utf-8")("replace")
            for channel in ("stdout", "stderr")
        }

    def heard(self, channel: Channel, data: bytes) -> None:
        if self._is_full:
            return
        room = _TOLD_BYTES - self._told
        self._say(channel, self._decoders[channel].decode(data[:room]))
        self._told += len(data)
        if len(data) > room:
            self._is_full = True
            self._session.tell(
                "notice", {"call": self._call, "text": "More output follows; it is not shown here."}
            )

    def close(self) -> None:
        if self._is_full:
            return
        for channel in ("stdout", "stderr"):
            self._say(channel, self._decoders[channel].decode(b"", final=True))

    def _say(self, channel: str, text: str) -> None:
        if text:
            self._session.tell("output", {"call": self._call, "channel": channel, "text": text})
