"""What happened on a sandbox's network, one event for each connection. Nothing in one is secret.

An event holds names, numbers and rules, never a byte of what was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

FOLD_S: Final = 10.0
MOST_APART: Final = 100

_MANY: Final = "many more hosts were asked for in a short time"


class Outcome(StrEnum):
    """`CUT` was allowed until a change of the policy, `LIMITED` would have been one too many."""

    ALLOWED = "allowed"
    DENIED = "denied"
    FAILED = "failed"
    CUT = "cut"
    LIMITED = "limited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`time` is when the connection was asked for; `rule` is what decided; `hint` says what to do about it, or "".

    `times` is more than one when the same thing was refused again and again.
    """

    time: float
    outcome: Outcome
    name: str
    address: str
    port: int
    rule: str = ""
    reason: str = ""
    hint: str = ""
    protocol: str = ""
    bytes_up: int = 0
    bytes_down: int = 0
    duration_s: float = 0.0
    times: int = 1

    def as_json(self) -> dict[str, str | int | float]:
        return {**asdict(self), "outcome": str(self.outcome)}

    @property
    def host(self) -> str:
        return self.name or self.address


class EventSink(Protocol):
    """Takes events as they come. Must not wait and must not raise.

    `repeat` is told what is no event of its own yet: the same refusal again, which somebody else may be waiting for.
    """

    def record(self, event: Event) -> None: ...
    def repeat(self, event: Event) -> None: ...


class Folding:
    """Before a sink: a refusal that is repeated within seconds becomes one event with a count.

    A guest that knocks on closed doors in a loop would otherwise fill the log. When it knocks on very many
    different ones, those beyond a number are counted without telling them apart.
    """

    def __init__(self, sink: EventSink, clock: Callable[[], float] = time.monotonic) -> None:
        self._sink = sink
        self._clock = clock
        self._seen: dict[tuple[str, str, int, str], tuple[float, Event]] = {}

    def record(self, event: Event) -> None:
        self.flush(older_than_s=FOLD_S)
        if event.outcome in (Outcome.ALLOWED, Outcome.CUT):
            self._sink.record(event)
            return
        if self._key(event) not in self._seen and len(self._seen) >= MOST_APART:
            event = replace(event, name="", address="", port=0, rule="", hint="", reason=_MANY)
        key = self._key(event)
        if key in self._seen:
            since, last = self._seen[key]
            self._seen[key] = since, replace(event, times=last.times + 1)
            self._sink.repeat(event)
            return
        self._seen[key] = self._clock(), replace(event, times=0)
        self._sink.record(event)

    @staticmethod
    def _key(event: Event) -> tuple[str, str, int, str]:
        return event.name, event.address, event.port, event.reason

    def flush(self, older_than_s: float = 0.0) -> None:
        """Tells of what was folded."""
        last = self._clock() - older_than_s
        # In the order in which they were put in, so the first that is young ends the search.
        for key, (since, event) in list(self._seen.items()):
            if since > last:
                break
            del self._seen[key]
            if event.times:
                self._sink.record(event)


def advice(sandbox: str, rule: str) -> str:
    """What to type so that a refused connection is allowed the next time."""
    if not rule:
        return ""
    if not sandbox:
        return f"Allow it with `--allow {rule}`"
    return (
        f"Allow it with `crucible network allow {sandbox} {rule}`, or `--allow {rule}` at the start"
    )
