"""One request on one connection: its frames, and the windows of its channels. Waiting is the caller's."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Iterator, Mapping
from socket import socket
from typing import Any, Protocol

from crucible.client import protocol
from crucible.client.answers import Started, service_error, table
from crucible.client.flows import Outbound, Sink
from crucible.client.link import Link, LinkLost
from crucible.errors import OwnerUnreachable

PIECE_BYTES = 65_536
TRIES = 3
TICK_MS = 250

Connect = Callable[[], socket]
Upload = Callable[[], Iterable[bytes]]


class Progress(Protocol):
    """Shows a person where long work is. `tick` comes several times a second while it lasts."""

    def note(self, stage: str, detail: str) -> None: ...
    def tell(self, text: str) -> None:
        """A line that stays."""
        ...

    def tick(self) -> None: ...
    def clear(self) -> None: ...


class Unseen:
    """Progress that nobody watches."""

    def note(self, stage: str, detail: str) -> None:
        return

    def tell(self, text: str) -> None:
        return

    def tick(self) -> None:
        return

    def clear(self) -> None:
        return


class Exchange:
    """What is known of a request so far. `answer` is there when the service has said its last word."""

    def __init__(
        self,
        connection: socket,
        request: dict[str, Any],
        *,
        sinks: Mapping[int, Sink],
        progress: Progress,
        upload: Iterable[bytes] | None = None,
        resumed: Outbound | None = None,
        began: Callable[[Started], None] | None = None,
    ) -> None:
        """`began` is called at the start, before any output is passed on. `resumed` is the input of the same command
        on a connection that was lost.
        """
        self.link = Link(connection)
        self.outbound = resumed or Outbound()
        self.started: Started | None = None
        self.answer: dict[str, Any] | None = None
        self._request = request
        self._sinks = sinks
        self._acknowledged = {channel: sink.written for channel, sink in sinks.items()}
        self._progress = progress
        self._upload: Iterator[bytes] | None = None if upload is None else iter(upload)
        self._piece = b""
        self._resumed = resumed
        self._began = began
        self.link.send(protocol.json_frame(request))

    @property
    def wants_upload(self) -> bool:
        """Whether a piece of the upload could be sent now."""
        return self._upload is not None and self.outbound.room > 0 and not self.link.unsent

    @property
    def is_written(self) -> bool:
        return all(sink.is_idle for sink in self._sinks.values())

    def send_upload(self) -> None:
        if self._upload is None:
            return
        piece = self._piece or next(self._upload, None)
        if piece is None:
            self._upload = None
            self.link.send(self.outbound.end())
            return
        count = min(PIECE_BYTES, self.outbound.room)
        self._piece = piece[count:]
        if piece:
            self.link.send(self.outbound.frame(piece[:count]))

    def receive(self) -> None:
        """Raises LinkLost, and the error that the service answers with."""
        for kind, payload in self.link.receive():
            self._take(kind, payload)

    def acknowledge(self) -> None:
        """Tells the service what has been written. Raises the OSError that writing met."""
        for channel, sink in self._sinks.items():
            sink.check()
            count = sink.written - self._acknowledged[channel]
            if count and (sink.is_idle or count >= PIECE_BYTES):
                self._acknowledged[channel] += count
                self.link.send(protocol.taken_frame(channel, count))

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == protocol.JSON:
            self._take_message(protocol.parse_json(payload))
        elif kind == protocol.TAKEN:
            channel, count = protocol.parse_taken(payload)
            if channel == protocol.INPUT:
                self.outbound.take(count)
        elif kind == protocol.DATA and payload:
            sink = self._sinks.get(payload[0])
            if sink is None:
                raise protocol.BrokenFrame(f"Data came on channel {payload[0]}, which is not open")
            if len(payload) > 1:
                sink.put(payload[1:])

    def _take_message(self, message: dict[str, Any]) -> None:
        if "progress" in message:
            note = message["progress"]
            if isinstance(note, list) and len(note) == 2:
                self._progress.note(str(note[0]), str(note[1]))
        elif "notice" in message:
            self._progress.tell(str(message["notice"]))
        elif "started" in message:
            self._take_start(table(message, "started"))
        elif "ok" in message:
            self.answer = table(message, "ok")
        elif "error" in message:
            raise service_error(message["error"])

    def _take_start(self, facts: dict[str, Any]) -> None:
        self.started = Started(facts)
        self._upload = None
        if self._resumed is None:
            self.outbound = Outbound(max(0, self.started.input))
            if self._began is not None:
                self._began(self.started)
            return
        for channel in ("output", "errors"):
            if facts.get(channel, self._request[channel]) != self._request[channel]:
                raise protocol.BrokenFrame("A command goes on elsewhere than where it stopped")
        self.link.send(self.outbound.again(self.started.input))


def ask(
    connect: Connect,
    request: dict[str, Any],
    *,
    progress: Progress,
    upload: Upload | None = None,
    sinks: Mapping[int, Sink] | None = None,
) -> dict[str, Any]:
    """Sends a request that takes no keys and waits for its answer, whatever flows meanwhile."""
    for _ in range(TRIES):
        exchange = Exchange(
            connect(),
            request,
            sinks=sinks or {},
            progress=progress,
            upload=None if upload is None else upload(),
        )
        try:
            return _until_answered(exchange, progress)
        except LinkLost as error:
            if exchange.link.has_received:
                raise _ended_early(str(error)) from None
        finally:
            progress.clear()
            exchange.link.close()
    raise _ended_early("it closed every connection at once")


def _until_answered(exchange: Exchange, progress: Progress) -> dict[str, Any]:
    while exchange.answer is None:
        uploads = exchange.wants_upload
        poller = select.poll()
        poller.register(
            exchange.link, select.POLLIN | (select.POLLOUT if exchange.link.unsent else 0)
        )
        ready = poller.poll(0 if uploads else TICK_MS)
        progress.tick()
        if ready:
            exchange.link.flush()
            exchange.receive()
            exchange.acknowledge()
        if uploads:
            exchange.send_upload()
    return exchange.answer


def _ended_early(why: str) -> OwnerUnreachable:
    return OwnerUnreachable(
        f"The program that holds the sandboxes ended before it answered: {why}",
        hint="Look at the state with `crucible list`, then try again",
    )
