"""An object while the model writes it: what there is of it is told to whoever watches."""

from __future__ import annotations

from typing import Any

from crucible.agent.session import Session
from crucible.agent.structured import read_partial
from crucible.agent.turn import Turn

_SMALL = 1024
_SHARE_TOLD = 16


class GrowingObject:
    """Told as a whole each time, and kept: so the longer it is, the less often."""

    def __init__(self, session: Session, turn: Turn) -> None:
        self._session = session
        self._turn = turn
        self._shown: Any = None
        self._told_at = 0

    def tell(self) -> None:
        """Nothing where no object is wanted, or where too little came since."""
        length = self._turn.draft.length
        if self._turn.shape is None or length < self._told_at + self._told_at // _SHARE_TOLD:
            return
        value = read_partial(self._turn.draft.text)
        if value is None or value == self._shown:
            return
        self._session.tell("object", {"value": value, "whole": False})
        self._shown = value
        # What is small may be told with every word.
        self._told_at = length if length >= _SMALL else 0
