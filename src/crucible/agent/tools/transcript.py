"""What a program writes, in the order it came, in bounded memory: the beginning, the end, and how much lay between."""

from __future__ import annotations

from crucible.agent.workplace import Channel, Heard

# Of what a program writes this much is kept: its beginning, and its end.
KEPT_HEAD = 4 << 20
KEPT_TAIL = 4 << 20


class Transcript:
    """Passes on to `heard` all that it hears."""

    def __init__(
        self, heard: Heard | None = None, *, head: int = KEPT_HEAD, tail: int = KEPT_TAIL
    ) -> None:
        self.total = 0
        self._heard = heard
        self._head = bytearray()
        self._tail = bytearray()
        self._most_head = head
        self._most_tail = tail

    def hear(self, channel: Channel, data: bytes) -> None:
        self.total += len(data)
        room = self._most_head - len(self._head)
        if room > 0:
            self._head += data[:room]
        self._tail += data[max(0, room) :]
        # Cut now and then, not each time: moving the rest forward costs as much as it is long.
        if len(self._tail) > 2 * self._most_tail:
            del self._tail[: len(self._tail) - self._most_tail]
        if self._heard is not None:
            self._heard(channel, data)

    @property
    def dropped(self) -> int:
        """How many bytes are kept nowhere."""
        return self.total - len(self._head) - min(len(self._tail), self._most_tail)

    def head(self) -> bytes:
        return bytes(self._head)

    def kept(self) -> bytes:
        tail = bytes(self._tail[max(0, len(self._tail) - self._most_tail) :])
        if not self.dropped:
            return bytes(self._head) + tail
        return bytes(self._head) + b"\n[%d bytes were not kept]\n" % self.dropped + tail
