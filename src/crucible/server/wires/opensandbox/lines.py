"""Output in whole lines: its clients put a line's end between any two pieces that have none."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from crucible.sandbox.execution import Execution
from crucible.sandbox.session import Channel
from crucible.server.wires.texts import follow_text

# A line longer than this is told in pieces all the same.
LONGEST_LINE = 65_536
_LAST_END = re.compile(r"[\r\n](?=[^\r\n]*\Z)")


class Lines:
    """What of one channel's text can be told by now."""

    def __init__(self) -> None:
        self._begun = ""

    def take(self, text: str) -> str:
        whole = self._begun + text
        found = _LAST_END.search(whole)
        cut = found.end() if found else 0
        if len(whole) - cut > LONGEST_LINE:
            cut = len(whole)
        self._begun = whole[cut:]
        return whole[:cut]

    def rest(self) -> str:
        rest, self._begun = self._begun, ""
        return rest


async def follow_lines(execution: Execution) -> AsyncGenerator[tuple[Channel, str], None]:
    lines = {Channel.OUTPUT: Lines(), Channel.ERRORS: Lines()}
    async with aclosing(follow_text(execution)) as texts:
        async for channel, text in texts:
            if whole := lines[channel].take(text):
                yield channel, whole
    for channel, one in lines.items():
        if rest := one.rest():
            yield channel, rest
