"""A command whose output goes out line by line as it comes, and whose input is our standard input."""

from __future__ import annotations

import base64
import os
import select
from typing import Any

from crucible.cli.provider.lines import write_event
from crucible.cli.provider.requests import STDIN
from crucible.client import protocol
from crucible.client.answers import Started
from crucible.client.exchange import PIECE_BYTES, Connect, Exchange, Unseen
from crucible.client.flows import CallSink
from crucible.client.link import LinkLost
from crucible.errors import OwnerUnreachable


def stream_command(
    connect: Connect, request: dict[str, Any], *, has_input: bool
) -> tuple[dict[str, Any], Started]:
    """The service's answer when it has ended. If we are killed, so is the command."""
    exchange = Exchange(
        connect(),
        request,
        sinks={
            protocol.OUTPUT: CallSink(lambda data: _write("output", data)),
            protocol.ERRORS: CallSink(lambda data: _write("errors", data)),
        },
        progress=Unseen(),
        began=lambda started: write_event("started", stream=started.stream, pid=started.pid),
    )
    try:
        while exchange.answer is None:
            has_input = _step(exchange, has_input)
    except LinkLost as lost:
        raise OwnerUnreachable(
            f"The program that holds the sandbox ended while the command ran: {lost}",
            hint="Look at the state with `microvmctl list`",
        ) from None
    finally:
        exchange.link.close()
    if exchange.started is None:
        raise protocol.BrokenFrame("A command ended that had never begun")
    return exchange.answer, exchange.started


def _step(exchange: Exchange, has_input: bool) -> bool:
    """Waits for what comes next. Tells whether there may be more input."""
    link = exchange.link
    poller = select.poll()
    poller.register(link, select.POLLIN | (select.POLLOUT if link.unsent else 0))
    if has_input and exchange.started and exchange.outbound.room > 0 and not link.unsent:
        poller.register(STDIN, select.POLLIN)
    ready = dict(poller.poll())
    if link.fileno() in ready:
        link.flush()
        exchange.receive()
        exchange.acknowledge()
    if STDIN in ready:
        data = os.read(STDIN, min(PIECE_BYTES, exchange.outbound.room))
        link.send(exchange.outbound.frame(data) if data else exchange.outbound.end())
        return bool(data)
    return has_input


def _write(event: str, data: bytes) -> None:
    write_event(event, data=base64.b64encode(data).decode())
