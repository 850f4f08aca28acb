"""Tickets for browsers, which cannot send a token with a WebSocket: one terminal, once, within moments.

They are kept in memory alone: whoever comes back after a restart asks for another.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict

from crucible.errors import Unauthenticated
from crucible.server.callers import Caller
from crucible.values import dataclass

LIFETIME_S = 30.0
MOST_TICKETS = 1000
LONGEST_TICKET = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ticket:
    caller: Caller
    path: str
    expires_at: float


class Tickets:
    """Of too many the oldest is forgotten."""

    def __init__(self) -> None:
        self._tickets: OrderedDict[str, _Ticket] = OrderedDict()

    def give(self, caller: Caller, path: str) -> str:
        """For exactly this path."""
        text = secrets.token_urlsafe(32)
        self._tickets[text] = _Ticket(
            caller=caller, path=path, expires_at=time.monotonic() + LIFETIME_S
        )
        while len(self._tickets) > MOST_TICKETS:
            self._tickets.popitem(last=False)
        return text

    def redeem(self, text: str, path: str) -> Caller:
        """Who it was given to. It is gone with the attempt, whether that succeeds or not."""
        ticket = self._tickets.pop(text, None) if len(text) <= LONGEST_TICKET else None
        if ticket is None or ticket.path != path or ticket.expires_at <= time.monotonic():
            raise Unauthenticated(
                "The ticket is unknown, used already, too old or for another place"
            )
        return ticket.caller
