"""A bar for each layer of an image that is fetched or sent, redrawn in place on a terminal, if it lasts."""

from __future__ import annotations

import os
import sys
import threading
import time

from crucible.cli.progress import QUIET_S
from crucible.cli.render import size, tell, visible
from crucible.images.report import NOTICE

_REDRAW_S = 0.1
_BAR = 24
_ERASE_BELOW = "\x1b[J"


class LayerBars:
    """Called from the threads that carry the layers. Leaves nothing on the terminal when it is over."""

    def __init__(self, first: str, *, quiet_s: float = QUIET_S) -> None:
        self._text = first
        self._layers: dict[str, tuple[int, int]] = {}
        self._began = time.monotonic()
        self._quiet_s = quiet_s
        self._drawn_at = 0.0
        self._lines = 0
        self._lock = threading.Lock()
        self._is_shown = (
            sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        )

    def note(self, stage: str, detail: str) -> None:
        with self._lock:
            if stage == NOTICE:
                self._clear()
                tell(visible(detail))
                return
            self._text = f"{stage}: {detail}" if detail else stage
            self._draw(is_urgent=True)

    def layer(self, digest: str, here: int, total: int) -> None:
        with self._lock:
            self._layers[digest] = (here, total)
            self._draw(is_urgent=here == total)

    def clear(self) -> None:
        with self._lock:
            self._clear()

    def _draw(self, *, is_urgent: bool) -> None:
        now = time.monotonic()
        if not self._is_shown or now - self._began < self._quiet_s:
            return
        if not is_urgent and now - self._drawn_at < _REDRAW_S:
            return
        self._drawn_at = now
        self._clear()
        lines = self._shown()
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
        self._lines = len(lines)

    def _shown(self) -> list[str]:
        """As many layers as there are rows: those that are under way go before those that are done."""
        try:
            columns, rows = os.get_terminal_size(sys.stderr.fileno())
        except OSError:
            columns, rows = 80, 24
        columns, rows = columns or 80, rows or 24
        whole = sum(1 for here, total in self._layers.values() if here >= total)
        head = visible(self._text)
        if self._layers:
            head += f" ({whole} of {len(self._layers)} layers)"
        bars = [
            bar(digest, here, total)
            for digest, (here, total) in self._layers.items()
            if here < total or len(self._layers) <= rows - 3
        ]
        return [line[: columns - 1] for line in (head, *bars[: max(0, rows - 3)])]

    def _clear(self) -> None:
        if self._lines:
            sys.stderr.write(f"\x1b[{self._lines}A\r{_ERASE_BELOW}")
            sys.stderr.flush()
            self._lines = 0


def bar(digest: str, here: int, total: int) -> str:
    """`3f2a91c0d4e5 [########................]  34 %  12.3 MiB of 36.1 MiB`"""
    share = min(1.0, here / total) if total else 1.0
    filled = int(share * _BAR)
    drawn = "#" * filled + "." * (_BAR - filled)
    name = digest.partition(":")[2][:12] or digest[:12]
    return f"{name} [{drawn}] {share:4.0%}  {size(here)} of {size(total)}"
