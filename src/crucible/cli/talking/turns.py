"""One turn at the terminal: shown as it comes, with a person asked where that is wanted, and Ctrl-C as a cancel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from crucible.cli import render
from crucible.cli.talking.approving import answer
from crucible.cli.talking.showing import Showing

if TYPE_CHECKING:
    from crucible_client import Session, TurnEvent


def follow(
    session: Session, events: Iterator[TurnEvent], showing: Showing, *, agrees: bool
) -> dict[str, Any]:
    """The data of the turn's last event. An interrupt cancels the turn and is told by how it ended."""
    last = _read(session, events, showing, agrees=agrees)
    if last is not None:
        return last
    render.tell("\ncancelling")
    session.cancel()
    info = session.refresh()
    with closing(session.events(after=max(0, info.last_event - 1))) as rest:
        for event in rest:
            if event.is_last:
                return dict(event.data)
    return {}


def _read(
    session: Session, events: Iterator[TurnEvent], showing: Showing, *, agrees: bool
) -> dict[str, Any] | None:
    """None if it was interrupted."""
    try:
        for event in events:
            showing.show(event)
            if event.is_last:
                return dict(event.data)
            if event.kind == "approval-asked":
                _approve(session, event, agrees=agrees)
    except KeyboardInterrupt:
        return None
    return {}


def _approve(session: Session, event: TurnEvent, *, agrees: bool) -> None:
    for approval in session.approvals():
        if approval.id == event.data.get("id"):
            answer(session, approval, agrees=agrees)
